"""One page of a table as an accessible HTML table: sorting, paging and selection by mouse and keyboard.

The only view that needs a front end of its own: ipywidgets has no table with headings, and none a keyboard can walk.
The script is a string, never a file: a file would be watched and leak (anywidget#929).
"""

from typing import Any

import anywidget
from traitlets import Dict, Int, List, Unicode

__all__ = ["Grid"]

_SCRIPT = """
const make = (tag, props = {}, ...inside) => {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...inside);
  return node;
};

function render({ model, el }) {
  const set = values => { for (const [k, v] of Object.entries(values)) model.set(k, v); model.save_changes(); };
  const caption = make("caption"), head = make("thead"), body = make("tbody");
  const table = make("table", {}, caption, head, body);
  const where = make("span");
  where.setAttribute("role", "status");
  const last = () => {
    const total = model.get("total"), size = model.get("size");
    return total < 0 ? Infinity : Math.max(0, Math.floor((total - 1) / size) * size);
  };
  const more = () => model.get("total") < 0
    ? model.get("rows").length >= model.get("size")
    : model.get("start") + model.get("rows").length < model.get("total");
  const go = start => { table.ariaBusy = "true"; set({ start: Math.max(0, Math.min(start, last())) }); };
  const turn = (text, target, off) => {
    const node = make("button", { type: "button", textContent: text });
    // aria-disabled, not disabled: the keyboard stays where it is when the last page is reached.
    node.onclick = () => { if (node.ariaDisabled !== "true") go(target()); };
    return { node, draw: () => { node.ariaDisabled = String(off()); } };
  };
  const first = () => model.get("start") === 0;
  const turns = [
    turn("First", () => 0, first),
    turn("Previous", () => model.get("start") - model.get("size"), first),
    turn("Next", () => model.get("start") + model.get("size"), () => !more()),
    turn("Last", last, () => !more() || model.get("total") < 0),
  ];
  const nav = make("nav", {}, ...turns.map(one => one.node), where);
  nav.setAttribute("aria-label", "Pages of " + model.get("caption"));

  const drawHead = () => {
    const sort = model.get("sort"), cells = [];
    if (model.get("select") !== "none") cells.push(make("th", { scope: "col", textContent: "pick" }));
    for (const column of model.get("columns")) {
      const cell = make("th", { scope: "col" });
      cell.style.textAlign = column.side;
      const down = sort === "-" + column.key, up = sort === column.key;
      const text = column.title + (down ? " \\u2193" : up ? " \\u2191" : "");
      if (column.sortable) {
        const button = make("button", { type: "button", textContent: text });
        button.onclick = () => {
          table.ariaBusy = "true";
          set({ start: 0, sort: up ? "-" + column.key : column.key });
        };
        cell.append(button);
        cell.ariaSort = down ? "descending" : up ? "ascending" : "none";
      } else cell.textContent = text;
      cells.push(cell);
    }
    const at = [...head.querySelectorAll("button")].indexOf(el.getRootNode().activeElement);
    head.replaceChildren(make("tr", {}, ...cells));
    if (at >= 0) head.querySelectorAll("button")[at]?.focus();
  };

  const pick = (key, on) => {
    const kept = model.get("select") === "one" ? [] : model.get("selected").filter(one => one !== key);
    set({ selected: on ? [...kept, key] : kept });
  };
  const group = "pick-" + Math.random().toString(36).slice(2);
  const drawRows = () => {
    const columns = model.get("columns"), keys = model.get("row_keys"), kind = model.get("select");
    body.replaceChildren(...model.get("rows").map((row, at) => {
      const line = make("tr");
      if (kind !== "none") {
        const box = make("input", { type: kind === "one" ? "radio" : "checkbox", name: group });
        box.dataset.key = keys[at];
        box.ariaLabel = "Pick " + (row[0] || "row " + (at + 1));
        box.onchange = () => pick(keys[at], box.checked);
        line.append(make("td", {}, box));
      }
      row.forEach((text, i) => {
        const cell = i === 0 ? make("th", { scope: "row", textContent: text }) : make("td", { textContent: text });
        cell.style.textAlign = columns[i].side;
        if (i === 0) cell.style.fontWeight = "normal";
        line.append(cell);
      });
      return line;
    }));
    table.ariaBusy = "false";
    drawPicks();
  };
  const drawPicks = () => {
    const picked = new Set(model.get("selected"));
    for (const box of body.querySelectorAll("input")) {
      box.checked = picked.has(box.dataset.key);
      box.closest("tr").dataset.selected = box.checked;
    }
    drawWhere();
  };
  const drawWhere = () => {
    const start = model.get("start"), count = model.get("rows").length, total = model.get("total");
    const n = model.get("selected").length, number = value => value.toLocaleString("en-US");
    where.textContent = (count ? `rows ${number(start + 1)}\\u2013${number(start + count)}` : "no rows")
      + (total < 0 ? "" : ` of ${number(total)}`)
      + (model.get("select") === "none" ? "" : ` \\u00b7 ${number(n)} picked`)
      + (model.get("notice") ? ` \\u00b7 ${model.get("notice")}` : "");
    caption.textContent = model.get("caption");
    turns.forEach(one => one.draw());
  };

  const listen = { "change:columns change:sort": drawHead, "change:rows": drawRows,
    "change:selected": drawPicks, "change:total change:start change:caption change:notice": drawWhere };
  for (const [names, draw] of Object.entries(listen)) model.on(names, draw);
  el.classList.add("rightlab-grid");
  el.append(table, nav);
  drawHead();
  drawRows();
  return () => { for (const [names, draw] of Object.entries(listen)) model.off(names, draw); };
}
export default { render };
"""


class Grid(anywidget.AnyWidget):
    """The widget; :class:`rightlab.views.TableView` fills it.

    ``rows`` are texts, ``row_keys`` one per row; ``start``, ``sort`` and ``selected`` are set by both sides.
    ``total`` -1 means unknown.
    """

    _esm = Unicode().tag(sync=True)
    caption = Unicode().tag(sync=True)
    columns = List(Dict()).tag(sync=True)
    rows = List(List(Unicode())).tag(sync=True)
    row_keys = List(Unicode()).tag(sync=True)
    start = Int(0).tag(sync=True)
    size = Int(50).tag(sync=True)
    total = Int(-1).tag(sync=True)
    sort = Unicode().tag(sync=True)
    select = Unicode("none").tag(sync=True)
    selected = List(Unicode()).tag(sync=True)
    notice = Unicode().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        # Not as the trait's default: state saved without defaults would come back without its script.
        super().__init__(_esm=_SCRIPT, **traits)
