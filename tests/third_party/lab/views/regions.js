// The pixels of the image: a view of a third-party package.
import { make } from "../dom.js";

export const view = {
  name: "regions",
  title: "Regions",
  suits: (data) => Boolean(data.extra.pixels),
  show(data, element) {
    element.append(make("p", { class: "regions" }, `${data.extra.pixels.length} rows of pixels`));
  },
};
