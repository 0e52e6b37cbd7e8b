// Charts as inline SVG: axes, lines, bands, points. Drawn at the width they have, so that text
// stays readable on a phone; every chart has a title and a sentence for those who do not see it.

const NS = "http://www.w3.org/2000/svg";

function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function scale({ domain: [low, high], log }, from, to) {
  const f = log ? Math.log : (x) => x;
  const span = f(high) - f(low) || 1;
  return (value) => from + ((f(value) - f(low)) / span) * (to - from);
}

function ticks({ domain: [low, high], log, ticks: given }, most) {
  if (given) return given.filter((tick) => tick >= low && tick <= high);
  if (log) {
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
        for (const step of steps) found.push(Number((step * 10 ** power).toPrecision(1)));
      }
      const inside = found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
      if (inside.length <= most || steps.length === 1) return inside;
    }
  }
  const rough = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) {
    found.push(Number(tick.toPrecision(6)));
  }
  return found;
}

/**
 * Fill `holder` with a chart, again whenever its width changes.
 * axes: {label, domain, log, ticks, format}; layers: {kind: line|band|point|vertical|horizontal}.
 */
export function draw(holder, { title, description, x, y, layers, height = 300, testid }) {
  const paint = () => {
    const width = Math.max(260, holder.clientWidth);
    holder.replaceChildren(render(width));
  };
  const render = (width) => {
    const room = { left: 64, right: 14, top: 14, bottom: 44 };
    const px = scale(x, room.left, width - room.right);
    const py = scale(y, height - room.bottom, room.top);
    const id = `chart-${testid}`;
    const svg = s("svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "data-testid": testid,
      "aria-labelledby": `${id}-title ${id}-description`, class: "chart",
    }, s("title", { id: `${id}-title` }, title), s("desc", { id: `${id}-description` }, description));
    const xFormat = x.format ?? String;
    const yFormat = y.format ?? String;
    for (const tick of ticks(y, Math.max(3, Math.round(height / 50)))) {
      svg.append(
        s("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(tick), y2: py(tick) }),
        s("text", { class: "tick", x: room.left - 8, y: py(tick) + 4, "text-anchor": "end" }, yFormat(tick)));
    }
    for (const tick of ticks(x, Math.max(3, Math.round(width / 90)))) {
      svg.append(
        s("line", { class: "notch", x1: px(tick), x2: px(tick), y1: height - room.bottom, y2: height - room.bottom + 5 }),
        s("text", { class: "tick", x: px(tick), y: height - room.bottom + 19, "text-anchor": "middle" }, xFormat(tick)));
    }
    svg.append(
      s("line", { class: "axis", x1: room.left, x2: width - room.right, y1: height - room.bottom, y2: height - room.bottom }),
      s("text", { class: "label", x: (room.left + width - room.right) / 2, y: height - 6, "text-anchor": "middle" }, x.label),
      s("text", { class: "label", x: 13, y: (room.top + height - room.bottom) / 2, "text-anchor": "middle",
        transform: `rotate(-90 13 ${(room.top + height - room.bottom) / 2})` }, y.label));
    const clip = s("clipPath", { id: `${id}-clip` },
      s("rect", { x: room.left, y: 0, width: width - room.left - room.right, height: height - room.bottom + 1 }));
    svg.append(s("defs", {}, clip));
    const inside = s("g", { "clip-path": `url(#${id}-clip)` });
    svg.append(inside);
    for (const layer of layers) {
      const name = `${layer.kind} ${layer.style ?? ""}`;
      if (layer.kind === "line") {
        const points = layer.points.map(([a, b]) => `${px(a).toFixed(1)},${py(b).toFixed(1)}`);
        if (layer.fill) {
          const [first, last] = [layer.points[0], layer.points.at(-1)];
          const edge = layer.fill === "above" ? room.top : height - room.bottom;
          inside.append(s("polygon", { class: `area ${layer.style ?? ""}`,
            points: `${px(first[0])},${edge} ${points.join(" ")} ${px(last[0])},${edge}` }));
        }
        inside.append(s("polyline", { class: name, points: points.join(" "), "data-testid": layer.testid }));
        if (layer.tag && width > 480) {
          const [a, b] = layer.points[Math.floor(layer.points.length * 0.7)];
          svg.append(s("text", { class: "note", x: px(a) - 8, y: py(b) - 6, "text-anchor": "end" }, layer.tag));
        }
        for (const [a, b] of layer.hover === false ? [] : layer.points) {
          inside.append(s("circle", { class: "hit", cx: px(a), cy: py(b), r: 7 },
            s("title", {}, `${layer.label ?? ""} ${x.label} ${xFormat(a)}, ${y.label} ${yFormat(b)}`.trim())));
        }
      } else if (layer.kind === "horizontal" || layer.kind === "vertical") {
        const across = layer.kind === "horizontal";
        const at = across ? py(layer.at) : px(layer.at);
        inside.append(s("line", across
          ? { class: name, x1: room.left, x2: width - room.right, y1: at, y2: at, "data-testid": layer.testid }
          : { class: name, x1: at, x2: at, y1: room.top, y2: height - room.bottom, "data-testid": layer.testid }));
        if (layer.label) {
          const late = at > width * 0.6;
          svg.append(s("text", across
            ? { class: "note", x: room.left + 5, y: at - 5 }
            : { class: "note", x: at + (late ? -5 : 5), y: height - room.bottom - 8, "text-anchor": late ? "end" : "start" },
          layer.label));
        }
      } else {
        const [a, b] = layer.at;
        const [cx, cy] = [px(a), py(b)];
        const late = layer.side !== "right" && cx > width * 0.6;
        const shape = layer.style === "chosen"
          ? s("circle", { cx, cy, r: 7 }) : s("rect", { x: cx - 5, y: cy - 5, width: 10, height: 10, transform: `rotate(45 ${cx} ${cy})` });
        shape.setAttribute("class", name);
        shape.dataset.testid = layer.testid;
        shape.dataset.x = a;
        shape.dataset.y = b;
        shape.append(s("title", {}, `${layer.label}: ${x.label} ${xFormat(a)}, ${y.label} ${yFormat(b)}`));
        const [shift, anchor] = layer.under ? [0, "middle"] : late ? [-12, "end"] : [12, "start"];
        svg.append(shape, s("text", { class: `note ${layer.style ?? ""}`, x: layer.under ? Math.min(cx, width - 38) : cx + shift,
          y: cy + (layer.under ?? layer.below ?? -9), "text-anchor": anchor }, layer.label));
      }
    }
    return svg;
  };
  holder.paint = paint;
  if (!holder.watched) {
    holder.watched = new ResizeObserver(() => holder.paint());
    holder.watched.observe(holder);
  }
  paint();
}
