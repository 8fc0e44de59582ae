"use strict";
// Plots of points and lines in two or three dimensions on a canvas. A figure is plain data in the manner of plotly:
// {data: [{type, mode, x, y, z, line, marker, text, customdata}], layout: {scene: {xaxis, ...} or xaxis, yaxis}}.
const Plots = (() => {
  const views = new WeakMap();
  const TICK_LENGTH = 90; // pixels between two ticks, about

  const extent = (values) => {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    if (low > high) return [-1, 1];
    const margin = low === high ? Math.abs(low) || 1 : 0.06 * (high - low);
    return [low - margin, high + margin];
  };

  const ticks = ([low, high], number) => {
    const rough = (high - low) / Math.max(number, 2);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const values = [];
    for (let at = Math.ceil(low / step); at * step <= high; at++) values.push(at * step);
    return values.map((value) => [value, Number(value.toFixed(digits)).toString().replace("-", "−")]);
  };

  const outline = (context, symbol, x, y, radius) => {
    context.beginPath();
    if (symbol === "diamond") {
      context.moveTo(x, y - 1.3 * radius);
      for (const [dx, dy] of [[1.3, 0], [0, 1.3], [-1.3, 0]]) context.lineTo(x + dx * radius, y + dy * radius);
      context.closePath();
    } else if (symbol === "square") {
      context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
    } else if (symbol === "cross") {
      const arm = 0.45 * radius;
      context.rect(x - arm, y - 1.2 * radius, 2 * arm, 2.4 * radius);
      context.rect(x - 1.2 * radius, y - arm, 2.4 * radius, 2 * arm);
    } else {
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
  };

  class View {
    constructor(div) {
      this.div = div;
      this.canvas = document.createElement("canvas");
      this.tip = document.createElement("div");
      this.tip.className = "plot-tip";
      this.tip.hidden = true;
      const save = document.createElement("button");
      save.type = "button";
      save.className = "plot-save";
      save.textContent = "Save picture";
      save.addEventListener("click", () => this.save());
      div.replaceChildren(this.canvas, this.tip, save);
      div.tabIndex = 0;
      this.pointers = new Map();
      const on = (kind, react) => this.canvas.addEventListener(kind, react);
      on("pointerdown", (event) => this.press(event));
      on("pointermove", (event) => this.move(event));
      for (const kind of ["pointerup", "pointercancel"]) on(kind, (event) => this.release(event));
      on("pointerleave", () => { this.tip.hidden = true; });
      on("dblclick", () => this.reset());
      on("wheel", (event) => this.wheel(event));
      div.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => this.draw()).observe(div);
    }

    set(data, layout, colours) {
      const first = this.layout === undefined;
      [this.data, this.layout, this.colours] = [data, layout, colours];
      this.axes = layout.scene ? ["x", "y", "z"] : ["x", "y"];
      this.in3d = Boolean(layout.scene);
      this.extents = this.axes.map((axis) => (layout.scene ?? layout)[`${axis}axis`].range
        ?? extent([...data.flatMap((trace) => trace[axis] ?? []), ...(layout.shapes ?? []).map((shape) => shape[`${axis}0`])]));
      if (first) this.reset();
      this.div.data = data;
      this.draw();
    }

    reset() {
      const eye = this.layout.scene?.camera?.eye ?? { x: 1, y: 1, z: 1 };
      this.yaw = Math.atan2(eye.y, eye.x);
      this.pitch = Math.atan2(eye.z, Math.hypot(eye.x, eye.y));
      this.zoom = 1;
      this.shift = [0, 0];
      this.ranges = null;
      this.draw();
    }

    // Sizes of the box in three dimensions: those of the data, unless they differ much.
    get sides() {
      const sizes = this.extents.map(([low, high]) => high - low);
      const largest = Math.max(...sizes);
      const cube = this.layout.scene.aspectmode === "cube" || Math.min(...sizes) < largest / 4;
      return cube ? [1, 1, 1] : sizes.map((size) => size / largest);
    }

    // Project a point of the data onto the canvas; the third number is its nearness to the reader.
    project(point) {
      if (!this.in3d) {
        return this.axes.map((axis, number) => {
          const [low, high] = this.shown[number];
          const share = (point[number] - low) / (high - low);
          const [start, end] = this.frame[number];
          return start + share * (end - start);
        });
      }
      const at = point.map((value, number) => {
        const [low, high] = this.extents[number];
        return ((value - low) / (high - low) - 0.5) * this.box[number];
      });
      const [sinYaw, cosYaw, sinPitch, cosPitch] = [Math.sin(this.yaw), Math.cos(this.yaw), Math.sin(this.pitch), Math.cos(this.pitch)];
      const along = at[0] * cosYaw + at[1] * sinYaw;
      const right = -at[0] * sinYaw + at[1] * cosYaw;
      const up = at[2] * cosPitch - along * sinPitch;
      const near = along * cosPitch + at[2] * sinPitch;
      const scale = (this.size * this.zoom * 3.2) / (3.2 - near);
      return [this.width / 2 + this.shift[0] + scale * right, 0.47 * this.height + this.shift[1] - scale * up, near];
    }

    draw() {
      const { clientWidth: width, clientHeight: height } = this.div;
      if (!this.data || !width || !height) return;
      const sharp = window.devicePixelRatio || 1;
      [this.canvas.width, this.canvas.height] = [width * sharp, height * sharp];
      [this.canvas.style.width, this.canvas.style.height] = [`${width}px`, `${height}px`];
      [this.width, this.height] = [width, height];
      const context = this.canvas.getContext("2d");
      context.scale(sharp, sharp);
      context.font = `13px ${this.colours.font}`;
      context.lineJoin = "round";
      this.context = context;
      this.marks = [];
      if (this.in3d) {
        this.box = this.sides;
        this.size = (0.94 * Math.min(height, 0.85 * width)) / Math.hypot(...this.box);
        this.drawBox();
      } else {
        this.drawFrame();
      }
      const pieces = [];
      this.data.forEach((trace, number) => {
        if (trace.visible === false || !trace.x?.length) return;
        const points = trace.x.map((_, index) => this.axes.map((axis) => trace[axis][index]))
          .map((point) => (point.every(Number.isFinite) ? this.project(point) : null));
        if (trace.mode === "lines") this.addLines(pieces, trace, points);
        else this.addMarks(pieces, trace, points, number);
      });
      // In three dimensions what is near covers what is far; in two the later trace covers the earlier one.
      if (this.in3d) pieces.sort((a, b) => a[0] - b[0]);
      for (const [, paint] of pieces) paint();
    }

    addLines(pieces, trace, points) {
      const { context } = this;
      const prepare = () => {
        context.globalAlpha = trace.opacity ?? 1;
        context.strokeStyle = trace.line.color;
        context.lineWidth = trace.line.width;
        context.setLineDash(trace.line.dash === "dot" ? [2, 4] : []);
      };
      const follow = (path) => {
        context.beginPath();
        let pen = false;
        for (const point of path) {
          if (point === null) pen = false;
          else if (pen) context.lineTo(point[0], point[1]);
          else { context.moveTo(point[0], point[1]); pen = true; }
        }
      };
      if (!this.in3d) {
        pieces.push([0, () => this.clipped(() => {
          follow(points);
          if (trace.fill) { context.fillStyle = trace.fillcolor; context.fill(); }
          prepare();
          context.stroke();
        })]);
        return;
      }
      for (let index = 1; index < points.length; index++) {
        const [from, to] = [points[index - 1], points[index]];
        if (from && to) pieces.push([(from[2] + to[2]) / 2, () => { prepare(); follow([from, to]); context.stroke(); }]);
      }
    }

    addMarks(pieces, trace, points, number) {
      const { context } = this;
      const { marker } = trace;
      const radius = this.in3d ? marker.size : marker.size / 2;
      points.forEach((point, index) => {
        if (point === null) return;
        if (!this.in3d && !this.inside(point)) return;
        const paint = () => {
          context.globalAlpha = marker.opacity ?? trace.opacity ?? 1;
          context.setLineDash([]);
          outline(context, marker.symbol, point[0], point[1], radius);
          if (marker.symbol !== "circle-open") { context.fillStyle = marker.color; context.fill(); }
          context.strokeStyle = marker.line?.color ?? marker.color;
          context.lineWidth = marker.line?.width ?? 1;
          context.stroke();
        };
        pieces.push([(point[2] ?? 0) + 1e-6, paint]);
        if (trace.hoverinfo !== "skip") this.marks.push({ at: point, trace, index, number });
      });
    }

    inside([x, y]) {
      const [[left, right], [bottom, top]] = this.frame;
      return x >= left - 1 && x <= right + 1 && y >= top - 1 && y <= bottom + 1;
    }

    clipped(paint) {
      const [[left, right], [bottom, top]] = this.frame;
      this.context.save();
      this.context.beginPath();
      this.context.rect(left, top, right - left, bottom - top);
      this.context.clip();
      paint();
      this.context.restore();
    }

    text(words, x, y, align = "center", baseline = "middle", turned = false) {
      const { context } = this;
      context.save();
      context.globalAlpha = 1;
      context.fillStyle = this.colours.muted;
      [context.textAlign, context.textBaseline] = [align, baseline];
      context.translate(x, y);
      if (turned) context.rotate(-Math.PI / 2);
      context.fillText(words, 0, 0);
      context.restore();
    }

    line(from, to, colour = this.colours.line, width = 1) {
      const { context } = this;
      context.globalAlpha = 1;
      context.setLineDash([]);
      [context.strokeStyle, context.lineWidth] = [colour, width];
      context.beginPath();
      context.moveTo(from[0], from[1]);
      context.lineTo(to[0], to[1]);
      context.stroke();
    }

    drawFrame() {
      const { layout } = this;
      this.frame = [[62, this.width - 16], [this.height - 50, 18]];
      const sizes = this.frame.map(([start, end]) => Math.abs(end - start));
      this.shown = (this.ranges ?? this.extents).map((range) => [...range]);
      if (layout.yaxis.scaleanchor) {  // equal scales: widen the axis with more room
        const units = this.shown.map(([low, high], number) => (high - low) / sizes[number]);
        const unit = Math.max(...units);
        this.shown = this.shown.map(([low, high], number) => {
          const extra = (unit * sizes[number] - (high - low)) / 2;
          return [low - extra, high + extra];
        });
      }
      const [[left, right], [bottom, top]] = this.frame;
      for (const [value, label] of ticks(this.shown[0], sizes[0] / TICK_LENGTH)) {
        const [x] = this.project([value, this.shown[1][0]]);
        this.line([x, bottom], [x, top], this.colours.line, value === 0 ? 2 : 1);
        this.text(label, x, bottom + 8, "center", "top");
      }
      for (const [value, label] of ticks(this.shown[1], sizes[1] / (0.7 * TICK_LENGTH))) {
        const [, y] = this.project([this.shown[0][0], value]);
        this.line([left, y], [right, y], this.colours.line, value === 0 ? 2 : 1);
        this.text(label, left - 8, y, "right");
      }
      this.text(layout.xaxis.title.text, (left + right) / 2, this.height - 8, "center", "bottom");
      this.text(layout.yaxis.title.text, 14, (bottom + top) / 2, "center", "middle", true);
      for (const { x0, line } of layout.shapes ?? []) {
        const [x] = this.project([x0, this.shown[1][0]]);
        if (x >= left && x <= right) this.line([x, bottom], [x, top], line.color, line.width);
      }
    }

    // The three sides of the box that are farthest from the reader, with grid lines; ticks at the near edges.
    drawBox() {
      const ends = this.extents;
      const middle = ends.map(([low, high]) => (low + high) / 2);
      const at = (changes) => this.project(middle.map((value, axis) => changes[axis] ?? value));
      const back = ends.map(([low, high], axis) => (at({ [axis]: low })[2] < at({ [axis]: high })[2] ? low : high));
      const front = ends.map(([low, high], axis) => (back[axis] === low ? high : low));
      const marks = ends.map((range) => ticks(range, 4));
      for (const side of [0, 1, 2]) {
        const [first, second] = [0, 1, 2].filter((axis) => axis !== side);
        for (const [along, across] of [[first, second], [second, first]]) {
          for (const [value] of [...marks[across], [ends[across][0]], [ends[across][1]]]) {
            const [from, to] = ends[along].map((end) => at({ [side]: back[side], [across]: value, [along]: end }));
            this.line(from, to);
          }
        }
      }
      const centre = [this.width / 2 + this.shift[0], 0.47 * this.height + this.shift[1]];
      for (const axis of [0, 1, 2]) {
        // x and y are labelled along the near edges of the lower side, z along an edge at the side of the view
        const others = [0, 1, 2].filter((other) => other !== axis);
        const corners = axis < 2
          ? [{ [others[0]]: front[others[0]], 2: this.pitch >= 0 ? ends[2][0] : ends[2][1] }]
          : [{ 0: front[0], 1: back[1] }, { 0: back[0], 1: front[1] }];
        const [edge] = corners.sort((a, b) => at({ ...a, [axis]: middle[axis] })[0] - at({ ...b, [axis]: middle[axis] })[0]);
        const away = (point, distance) => {
          const offset = axis === 2 ? [-1, 0] : [point[0] - centre[0], Math.max(point[1] - centre[1], 20)];
          const length = Math.hypot(...offset) || 1;
          return [point[0] + (distance * offset[0]) / length, point[1] + (distance * offset[1]) / length];
        };
        const label = this.layout.scene[`${this.axes[axis]}axis`].title.text;
        for (const [value, words] of marks[axis]) this.text(words, ...away(at({ ...edge, [axis]: value }), 16));
        this.text(label, ...away(at({ ...edge, [axis]: middle[axis] }), axis === 2 ? 72 : 44));
      }
    }

    nearest(event) {
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      let [best, distance] = [null, 14];
      for (const mark of this.marks) {
        const apart = Math.hypot(mark.at[0] - x, mark.at[1] - y);
        if (apart <= distance) [best, distance] = [mark, apart];
      }
      return best;
    }

    hover(event) {
      const mark = this.nearest(event);
      const words = mark?.trace.text?.[mark.index];
      this.canvas.style.cursor = words ? "pointer" : "";
      this.tip.hidden = !words;
      if (!words) return;
      // Only line breaks and bold words are markup; everything else is shown as text.
      this.tip.replaceChildren(...words.split("<br>").map((row) => {
        const line = document.createElement("div");
        row.split(/<b>(.*?)<\/b>/).forEach((part, odd) => {
          const piece = document.createElement(odd % 2 ? "b" : "span");
          piece.textContent = part;
          line.append(piece);
        });
        return line;
      }));
      const left = Math.min(mark.at[0] + 14, this.width - this.tip.offsetWidth - 6);
      const top = Math.min(mark.at[1] + 14, this.height - this.tip.offsetHeight - 6);
      [this.tip.style.left, this.tip.style.top] = [`${Math.max(left, 4)}px`, `${Math.max(top, 4)}px`];
    }

    press(event) {
      this.canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.travelled = 0;
      this.tip.hidden = true;
    }

    move(event) {
      const before = this.pointers.get(event.pointerId);
      if (!before) return this.hover(event);
      const [dx, dy] = [event.clientX - before[0], event.clientY - before[1]];
      const apart = this.spread;
      this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
      this.travelled += Math.abs(dx) + Math.abs(dy);
      if (this.pointers.size > 1) this.scale(this.spread / apart, event);
      else if (!this.in3d) this.pan(dx, dy);
      else if (event.shiftKey || event.buttons === 2) this.shift = [this.shift[0] + dx, this.shift[1] + dy];
      else this.turn(-dx / 150, dy / 150);
      this.draw();
    }

    get spread() {
      const [first, second] = [...this.pointers.values()];
      return second ? Math.hypot(first[0] - second[0], first[1] - second[1]) || 1 : 1;
    }

    release(event) {
      if (!this.pointers.delete(event.pointerId) || this.travelled > 4 || event.type === "pointercancel") return;
      const mark = this.nearest(event);
      const name = mark?.trace.customdata?.[mark.index];
      if (name !== undefined) this.div.dispatchEvent(new CustomEvent("choose", { detail: name }));
    }

    turn(yaw, pitch) {
      this.yaw += yaw;
      this.pitch = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, this.pitch + pitch));
    }

    pan(dx, dy) {
      const shares = [-dx / (this.frame[0][1] - this.frame[0][0]), -dy / (this.frame[1][1] - this.frame[1][0])];
      this.ranges = this.shown.map(([low, high], axis) => {
        const by = shares[axis] * (high - low);
        return [low + by, high + by];
      });
    }

    scale(factor, event) {
      if (this.in3d) { this.zoom = Math.max(0.2, Math.min(20, this.zoom * factor)); return; }
      const box = this.canvas.getBoundingClientRect();
      const at = [event.clientX - box.left, event.clientY - box.top];
      this.ranges = this.shown.map(([low, high], axis) => {
        const [start, end] = this.frame[axis];
        const fixed = low + ((at[axis] - start) / (end - start)) * (high - low);
        return [fixed + (low - fixed) / factor, fixed + (high - fixed) / factor];
      });
    }

    // A wheel scrolls the page unless the plot has been clicked, or a key asks for zooming.
    wheel(event) {
      if (document.activeElement !== this.div && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.scale(Math.exp(-event.deltaY / 500), event);
      this.draw();
    }

    key(event) {
      if (event.target !== this.div) return;
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      const middle = { clientX: 0, clientY: 0 };
      if (steps && this.in3d) this.turn(0.1 * steps[0], 0.1 * steps[1]);
      else if (steps) this.pan(-30 * steps[0], 30 * steps[1]);
      else if (event.key === "+" || event.key === "-") {
        const box = this.canvas.getBoundingClientRect();
        [middle.clientX, middle.clientY] = [box.left + this.width / 2, box.top + this.height / 2];
        this.scale(event.key === "+" ? 1.2 : 1 / 1.2, middle);
      } else if (event.key === "0") this.reset();
      else return;
      event.preventDefault();
      this.draw();
    }

    save() {
      const link = document.createElement("a");
      link.download = `${this.div.id}.png`;
      link.href = this.canvas.toDataURL("image/png");
      link.click();
    }
  }

  return {
    draw(div, data, layout, colours) {
      if (!views.has(div)) views.set(div, new View(div));
      views.get(div).set(data, layout, colours);
    },
    // Replace values of some traces: {x: [values of the first, values of the second], ...}.
    update(div, changes, traces) {
      const view = views.get(div);
      const data = view.data.map((trace, number) => {
        const at = traces.indexOf(number);
        if (at < 0) return trace;
        return { ...trace, ...Object.fromEntries(Object.entries(changes).map(([key, values]) => [key, values[at]])) };
      });
      view.set(data, view.layout, view.colours);
    },
  };
})();
