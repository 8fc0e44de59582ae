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

  const hasWebGL = () => {
    try {
      const context = document.createElement("canvas").getContext("webgl");
      context?.getExtension("WEBGL_lose_context")?.loseContext();
      return Boolean(context);
    } catch {
      return false;
    }
  };

  // Without WebGL a 3D figure is drawn in its first two coordinates.
  const flattened = (figure) => ({
    data: figure.data.map(({ z, ...trace }) => ({ ...trace, type: "scatter" })),
    layout: {
      xaxis: figure.layout.scene.xaxis,
      yaxis: figure.layout.scene.yaxis,
      margin: { l: 60, r: 15, t: 35, b: 58 },
    },
  });

  const draw = (plot) => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => paint(`var(--${name})`, style);
    const figure = paint(plot.figure, style);
    const in3d = Boolean(figure.layout.scene);
    for (const trace of figure.data) trace.visible = !tags(trace).some((tag) => plot.hidden.has(tag));
    const layout = {
      showlegend: false,
      hovermode: "closest",
      ...figure.layout,
      autosize: true,
      uirevision: "kept",
      font: { family: style.getPropertyValue("--sans"), size: 13, color: colour("ink") },
      hoverlabel: {
        bgcolor: colour("ground"),
        bordercolor: colour("muted"),
        font: { color: colour("ink") },
        align: "left",
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("path"), activecolor: colour("accent") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
    };
    // List the buttons explicitly: the default ones include one that uploads the figure.
    const modeBarButtons = in3d
      ? [["toImage"], ["orbitRotation", "pan3d", "zoom3d"], ["resetCameraDefault3d"]]
      : [["toImage"], ["zoom2d", "pan2d"], ["resetScale2d"]];
    const options = { displaylogo: false, plotlyServerURL: "", responsive: true, scrollZoom: in3d, modeBarButtons };
    return Plotly.react(plot.div, figure.data, layout, options).then(() => mark(plot));
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
    return Plotly.restyle(plot.div, update, [ring]);
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
    let figure = JSON.parse(document.getElementById(`${div.id}-spec`).textContent);
    if (figure.layout.scene && !hasWebGL()) {
      figure = flattened(figure);
      div.closest("figure").querySelector("figcaption").append(" This browser has no WebGL, so the view is two-dimensional.");
    }
    const plot = { div, figure, hidden: new Set() };
    plots.push(plot);
    draw(plot).then(() => {
      div.dataset.drawn = "true";
      div.on("plotly_click", (event) => {
        const name = event.points[0]?.customdata;
        if (name !== undefined) select(name);
      });
    });
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
    const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
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
  for (const button of all("button.select")) {
    button.addEventListener("click", () => select(button.closest("tr").dataset.point));
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
