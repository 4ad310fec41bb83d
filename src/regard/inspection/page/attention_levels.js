// Levels of attention: a map that belongs to an item of another axis is reached through that item.

import { select, visible } from "./dom.js";
import { t } from "./i18n.js";

const keyOf = (parent) => (parent ? `${parent.axis}:${parent.item}` : "");

// The items above a map, uppermost first.
function parentItems(data, map) {
  const path = [];
  for (let parent = map.parent; parent; parent = data.axes[parent.axis].parent) path.unshift(parent);
  return path;
}

// One choice for each level: all of it, or the inside of one of its items.
export function levelChoices(data, map, page) {
  const path = parentItems(data, map);
  return [null, ...path].flatMap((parent, depth) => {
    const items = data.itemsWithMaps(parent);
    if (!items.length) return [];
    const openItem = (item) => page.change({ map: data.mapsInside(item)[0]?.name ?? data.mapsInside(items[0])[0].name, row: undefined, column: undefined });
    const allItems = data.mapsInside(parent).length ? [{ key: "", label: depth ? t`the whole of it` : t`the whole` }] : [];
    const choices = items.map((item) => ({ key: keyOf(item), label: `${item.item + 1}  ${visible(data.labels(item.axis)[item.item])}` }));
    return [select(depth ? t`and inside` : t`Look inside`, [...allItems, ...choices], keyOf(path[depth]), (key) => openItem(items.find((item) => keyOf(item) === key) || parent))];
  });
}

// What the rows and columns of a map are, for its margins.
export const axisTitles = (data, map) => ({ rowTitle: t`${data.axes[map.queries].title} (looks)`, columnTitle: t`${data.axes[map.keys].title} (is looked at)` });

// What opens the maps inside an item of an axis; null where there are none.
export function opener(data, axis, page) {
  return (item) => {
    const [first] = data.mapsInside({ axis, item });
    return first ? () => page.change({ map: first.name, row: undefined, column: undefined }) : null;
  };
}

// The choice of a map among those of its level that can be shown here.
export function mapChoices(data, map, page, isShown = () => true) {
  const maps = data.mapsInside(map.parent).filter(isShown);
  return [...levelChoices(data, map, page),
    maps.length > 1 ? select(t`Map`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name, row: undefined, column: undefined })) : null];
}
