"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const plots = [];
  let selected = null;

  // Plots. A figure is plain data; its colours may refer to those of the page: "var(--stable)".
  const paint = (value, style) => {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => paint(item, style)) : value;
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, paint(item, style)]));
  };

  const tags = (trace) => trace.meta?.tags ?? [];

  const draw = (plot) => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => paint(`var(--${name})`, style);
    const figure = paint(plot.figure, style);
    for (const trace of figure.data) trace.visible = !tags(trace).some((tag) => plot.hidden.has(tag));
    const font = style.getPropertyValue("--sans");
    Plots.draw(plot.div, figure.data, figure.layout, { font, muted: colour("muted"), line: colour("line") });
    mark(plot);
  };

  // Move the ring to the selected point, in every plot that shows it.
  const mark = (plot) => {
    const ring = plot.figure.data.findIndex((trace) => trace.meta?.ring);
    if (ring < 0) return;
    const at = { x: [], y: [], z: [] };
    for (const trace of plot.figure.data) {
      (trace.customdata || []).forEach((name, index) => {
        if (name === selected) for (const axis of "xyz") if (trace[axis]) at[axis].push(trace[axis][index]);
      });
    }
    const update = { x: [at.x], y: [at.y] };
    if (plot.figure.data[ring].z) update.z = [at.z];
    Plots.update(plot.div, update, [ring]);
  };

  const select = (name) => {
    selected = name === selected ? null : name;
    for (const row of all("tr[data-point]")) {
      const chosen = row.dataset.point === selected;
      row.classList.toggle("selected", chosen);
      row.querySelector(".select").setAttribute("aria-pressed", String(chosen));
    }
    plots.forEach(mark);
  };

  const start = (div) => {
    const figure = JSON.parse(document.getElementById(`${div.id}-spec`).textContent);
    const plot = { div, figure, hidden: new Set() };
    plots.push(plot);
    draw(plot);
    div.dataset.drawn = "true";
    div.addEventListener("choose", (event) => select(event.detail));
    for (const button of all(`[data-legend="${div.id.slice(5)}"] button`)) {
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        shown ? plot.hidden.delete(button.dataset.tag) : plot.hidden.add(button.dataset.tag);
        draw(plot);
      });
    }
  };

  // Tables.
  const sortBy = (table, column, heading) => {
    const before = heading.getAttribute("aria-sort") ?? (heading.classList.contains("descending") ? "ascending" : "descending");
    const direction = before === "ascending" ? -1 : 1;
    for (const other of all("thead th", table)) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    const numeric = heading.classList.contains("number");
    const key = (row) => {
      const text = row.cells[column].dataset.key;
      if (!numeric) return text;
      return text === "" ? NaN : Number(text.replace("inf", "Infinity"));
    };
    const rows = all("tbody tr", table).map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b); // unknown values stay last
      return a === b ? 0 : a < b ? -direction : direction;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };

  for (const table of all("table.sortable")) {
    all("thead th", table).forEach((heading, column) =>
      heading.querySelector("button").addEventListener("click", () => sortBy(table, column, heading)));
  }
  // Filters: the rows that contain all words, and have the chosen values in their columns.
  for (const box of all(".filters")) {
    const rows = all("tbody tr", document.getElementById(box.dataset.table));
    const [search, output] = [box.querySelector("input"), box.querySelector("output")];
    const update = () => {
      const words = search.value.toLowerCase().split(/\s+/);
      const chosen = all("select", box).filter((select) => select.value);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word))
          || chosen.some((select) => row.cells[select.dataset.column].dataset.key !== select.value);
      }
      const shown = rows.filter((row) => !row.hidden).length;
      output.textContent = shown < rows.length ? `${shown} of ${rows.length} rows` : "";
    };
    box.addEventListener("input", update);
    update();
  }
  for (const button of all("button.select")) {
    button.addEventListener("click", () => select(button.closest("tr").dataset.point));
  }

  // What is wider than its box: a hint above it, and a faded edge while there is more to the right.
  for (const box of all(".scroll, .pane")) {
    const hint = document.createElement("p");
    hint.className = "hint";
    hint.textContent = box.matches(".scroll") ? "Scroll the table sideways for more columns →" : "Scroll the figure sideways →";
    box.before(hint);
    const update = () => {
      hint.hidden = box.scrollWidth <= box.clientWidth + 8;
      box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    };
    box.addEventListener("scroll", update, { passive: true });
    new ResizeObserver(update).observe(box);
    update();
  }

  // Matrices: the number under the pointer. A cell is one character; see report/matrices.py.
  for (const figure of all(".matrix")) {
    const { top, columns, steps, levels, decades, count } = figure.dataset;
    const rows = JSON.parse(figure.dataset.rows);
    const labels = JSON.parse(figure.closest(".matrices").dataset.labels);
    const [image, output] = [figure.querySelector("img"), figure.querySelector("output")];
    const name = (step) => (labels[step] === undefined ? `${step}` : `${step} (${labels[step]})`);
    image.addEventListener("pointermove", (event) => {
      const box = image.getBoundingClientRect();
      const at = (place, size, number) => Math.min(number - 1, Math.max(0, Math.floor((place / size) * number)));
      const row = at(event.clientY - box.top, box.height, rows.length);
      const column = at(event.clientX - box.left, box.width, Number(columns));
      const code = levels.charCodeAt(row * columns + column) - 35;
      const level = code === -2 ? 57 : code;
      const value = level ? top * 10 ** (decades * ((level - 1) / (count - 2) - 1)) : 0;
      output.textContent = `output ${name(rows[row])}, input ${name(column * steps)}: ${level === 1 ? "at most " : ""}${value.toPrecision(2)}`;
    });
  }

  // Copying: use the clipboard if it is allowed, otherwise select the text.
  for (const button of all("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  all(".plot").forEach(start);
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", () => plots.forEach(draw));
  }
})();
