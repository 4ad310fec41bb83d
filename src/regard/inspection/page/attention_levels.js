// Levels of attention: a map that belongs to an item of another axis is reached through that item.

import { select, visible } from "./dom.js";
import { say } from "./i18n.js";

const keyOf = (parent) => (parent ? `${parent.axis}:${parent.item}` : "");

// The items above a map, uppermost first.
function above(data, map) {
  const path = [];
  for (let parent = map.parent; parent; parent = data.axes[parent.axis].parent) path.unshift(parent);
  return path;
}

// One choice for each level: all of it, or the inside of one of its items.
export function levels(data, map, page) {
  const path = above(data, map);
  return [null, ...path].flatMap((parent, depth) => {
    const items = data.openable(parent);
    if (!items.length) return [];
    const open = (one) => page.change({ map: data.inside(one)[0]?.name ?? data.inside(items[0])[0].name, row: undefined, column: undefined });
    const whole = data.inside(parent).length ? [{ key: "", label: depth ? say`the whole of it` : say`the whole` }] : [];
    const choices = items.map((one) => ({ key: keyOf(one), label: `${one.item + 1}  ${visible(data.labels(one.axis)[one.item])}` }));
    return [select(depth ? say`and inside` : say`Look inside`, [...whole, ...choices], keyOf(path[depth]), (key) => open(items.find((one) => keyOf(one) === key) || parent))];
  });
}

// What the rows and columns of a map are, for its margins.
export const axisTitles = (data, map) => ({ rowTitle: say`${data.axes[map.queries].title} (looks)`, columnTitle: say`${data.axes[map.keys].title} (is looked at)` });

// What opens the maps inside an item of an axis; null where there are none.
export function opener(data, axis, page) {
  return (item) => {
    const [first] = data.inside({ axis, item });
    return first ? () => page.change({ map: first.name, row: undefined, column: undefined }) : null;
  };
}

// The choice of a map among those of its level that can be shown here.
export function mapChoice(data, map, page, shown = () => true) {
  const maps = data.inside(map.parent).filter(shown);
  return [...levels(data, map, page),
    maps.length > 1 ? select(say`Map`, maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name, row: undefined, column: undefined })) : null];
}
