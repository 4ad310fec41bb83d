// Levels of attention: the maps that belong to an item of another axis are opened from that item.

import { select, visible } from "./dom.js";
import { t } from "./i18n.js";

const keyOf = (parent) => (parent ? `${parent.axis}:${parent.item}` : "");

// Return the parent items of a map, outermost first.
function parentItems(data, map) {
  const path = [];
  for (let parent = map.parent; parent; parent = data.axes[parent.axis].parent) path.unshift(parent);
  return path;
}

// One selection per level: the entire level, or the maps inside one of its items.
export function levelChoices(data, map, page) {
  const path = parentItems(data, map);
  return [null, ...path].flatMap((parent, depth) => {
    const items = data.itemsWithMaps(parent);
    if (!items.length) return [];
    const openItem = (item) => page.change({ map: data.mapsInside(item)[0]?.name ?? data.mapsInside(items[0])[0].name, row: undefined, column: undefined });
    const allItems = data.mapsInside(parent).length ? [{ key: "", label: depth ? t`all of its items` : t`all items` }] : [];
    const choices = items.map((item) => ({ key: keyOf(item), label: `${item.item + 1}  ${visible(data.labels(item.axis)[item.item])}` }));
    return [select(depth ? t`and inside item` : t`Inside item`, [...allItems, ...choices], keyOf(path[depth]), (key) => openItem(items.find((item) => keyOf(item) === key) || parent))];
  });
}

// Axis titles of a map, shown in its margins.
export const axisTitles = (data, map) => ({ rowTitle: t`${data.axes[map.queries].title} (queries)`, columnTitle: t`${data.axes[map.keys].title} (keys)` });

// Return a function that maps an item of the axis to a click handler for the maps inside it; null if there are none.
export function opener(data, axis, page) {
  return (item) => {
    const [first] = data.mapsInside({ axis, item });
    return first ? () => page.change({ map: first.name, row: undefined, column: undefined }) : null;
  };
}

// Selection of a map among those of its level that this view can show.
export function mapChoices(data, map, page, isShown = () => true) {
  const maps = data.mapsInside(map.parent).filter(isShown);
  return [...levelChoices(data, map, page),
    maps.length > 1 ? select(t`Map`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name, row: undefined, column: undefined })) : null];
}
