"use strict";
// The charts of the page. All text from documents enters the page as text, never as markup.
(async () => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const make = (tag, properties = {}, ...children) => {
    const e = Object.assign(document.createElement(tag), properties);
    e.append(...children);
    return e;
  };
  const svg = (tag, attributes = {}, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    if (text !== undefined) e.textContent = text;
    return e;
  };

  const D = await (async () => {
    const text = atob($("#data").textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(unzipped).text());
  })();
  const maxSeries = 500, maxGrids = 6, maxBands = 12, maxRows = 5000;

  // Figures -----------------------------------------------------------------------------

  const significant = v => {
    if (v === 0) return "0";
    const a = Math.abs(v);
    for (const [scale, prefix] of [[1e9, " G"], [1e6, " M"], [1e5, " k"]])
      if (a >= scale) return Number((v / (prefix === " k" ? 1e3 : scale)).toPrecision(4)) + prefix;
    return String(Number(v.toPrecision(4)));
  };
  const count = (n, one) => n + " " + one + (n === 1 ? "" : "s");
  const bytes = n => {
    let i = 0;
    while (n >= 1024 && i < 6) { n /= 1024; i++; }
    return Number(n.toPrecision(4)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][i];
  };

  // A view has a head, series and the chosen facets and metric ----------------------------

  const views = D.views.map((head, v) => {
    const view = { ...head, series: D.series[v].map((s, id) => ({
      id, case: s[0], c: D.cases[s[0]], f: s[1], look: s[2], basis: s[3],
      x: D.lists[s[4]], work: s[5].map(w => D.lists[w]), q: s[6], n: D.lists[s[7]], bad: new Map(s[8]), fits: s[9] || [],
      low: s[10], high: s[11], repeats: D.lists[s[12]], // of the medians of repeats
    })) };
    view.metrics = [{ name: "latency", title: view.time || "latency", unit: "µs" }, ...view.rates];
    // The percentiles of any of its series.
    view.quantiles = D.quantiles.map((_, q) => q).filter(q => view.series.some(s => s.q[q].some(us => us > 0)));
    view.far = view.quantiles[view.quantiles.length - 1];
    view.root = $("#view-" + view.name);
    const { x, facets, series } = view;
    view.forms = [{ x, facets, series }];
    return view;
  });

  // form gives a view its x, facets and series: as they are in the file (0), or with x and the
  // facet exchanged that may replace it (1).
  function form(view, k) {
    if (!view.forms[k]) view.forms[k] = swapped(view);
    Object.assign(view, view.forms[k]);
  }

  function swapped({ swap, forms: [{ x, facets, series }] }) {
    const at = facets.findIndex(f => f.title === swap), found = [...new Set(series.flatMap(s => s.x))].sort((a, b) => a - b);
    const to = facets.with(at, { title: x.title, one: false, number: true, found: found.map(String) });
    const whole = new Map(), looks = new Map();
    const put = (map, key, v) => map.get(key) || map.set(key, v()).get(key);
    for (const s of [...series].sort((a, b) => a.case - b.case || a.f[at] - b.f[at])) s.x.forEach((n, i) => {
      const f = s.f.with(at, found.indexOf(n)), alike = f.filter((_, k) => k !== 0 && !to[k].one);
      const one = put(whole, s.case + ";" + f, () => ({
        ...s, f, id: whole.size, look: put(looks, String(alike), () => looks.size), x: [], work: s.work.map(() => []), q: s.q.map(() => []), n: [], bad: new Map(), fits: [],
        ...(s.low ? { low: [], high: [], repeats: [] } : {}),
      }));
      if (s.low) for (const name of ["low", "high", "repeats"]) one[name].push(s[name][i]);
      if (s.bad.has(i)) one.bad.set(one.x.length, s.bad.get(i));
      one.x.push(Number(facets[at].found[s.f[at]]));
      one.n.push(s.n[i]);
      s.work.forEach((w, k) => one.work[k].push(w[i]));
      s.q.forEach((q, k) => one.q[k].push(q[i]));
    });
    return { x: { title: swap, bytes: false }, facets: to, series: [...whole.values()] };
  }

  // initial chooses one value of each facet that separates kinds of measurement: the first that
  // occurs together with the values chosen before it.
  function initial(view) {
    let left = view.series;
    const chosen = view.facets.map((facet, i) => {
      if (!facet.one) return null; // all
      const k = left.reduce((least, s) => Math.min(least, s.f[i]), Infinity);
      left = left.filter(s => s.f[i] === k);
      return new Set([k]);
    });
    return { over: view.forms.findIndex(f => f && f.series === view.series), chosen, metric: view.rates.length && !view.latency ? 1 : 0, q: 0, band: false, fit: false, logX: true, logY: true, hidden: new Set(), at: null };
  }

  // figureOf returns a metric at a rung, NaN if it is missing. Only given metrics may be 0 or
  // negative.
  const figureOf = (view, s, i, k, q = view.state.q) => {
    const time = s.q[q][i], work = k && s.work[k - 1][i];
    if (view.metrics[k].given) return work ?? NaN;
    return !(time > 0) ? NaN : k === 0 ? time : work > 0 ? work / time : NaN;
  };
  const value = (view, s, i, q) => figureOf(view, s, i, view.state.metric, q);
  // spread returns the largest distance of a repeat from the median, for the time or a rate that follows from it.
  const spread = (s, i, k, q) => {
    if (q !== 0 || !s.low || s.repeats[i] < 2 || !(s.q[0][i] > 0)) return "";
    const t = s.q[0][i], part = k === 0 ? Math.max(s.high[i] / t - 1, 1 - s.low[i] / t) : Math.max(t / s.low[i] - 1, 1 - t / s.high[i]);
    return ` ± ${(100 * part).toFixed(part >= 0.0995 ? 0 : 1)} % (n=${s.repeats[i]})`;
  };
  const has = v => !Number.isNaN(v);
  const metricOf = view => view.metrics[view.state.metric];
  // Titles that depend on the percentile name it. Simulated times and given figures have no percentile.
  const percentile = (view, metric) => view.time || metric.given ? "" : D.quantiles[view.state.q].name;
  const rateTitle = (view, rate) => [rate.title, percentile(view, rate) && "at " + percentile(view, rate), rate.unit].filter(Boolean).join(" ");
  const fits = (view, s, except = -1) => view.state.chosen.every((set, i) => i === except || !set || set.has(s.f[i]));
  const label = (view, s, facets) => facets.map(i => {
    const { title, number, found } = view.facets[i], v = found[s.f[i]];
    if (!number || !/^\d+$/.test(v)) return v;
    return title === "ranks" ? count(Number(v), "rank") : `${title} ${v}`;
  }).filter(Boolean).join(" ");
  const worldOf = (view, s) => Number(view.facets[3].found[s.f[3]]);
  const xLabel = (view, s, i) => {
    if (view.shape !== "grid") return view.x.bytes ? bytes(s.x[i]) : view.x.title + ": " + s.x[i];
    const world = worldOf(view, s);
    return `rank ${Math.floor(s.x[i] / world)} to rank ${s.x[i] % world}`;
  };
  const facts = c => D.origins[c[5]];
  const fact = (c, name) => (facts(c).find(f => f[0] === name) || ["", ""])[1];

  // select finds the series that are shown and the omitted ones, and what the shown ones mix.
  function select(view) {
    const all = view.series.filter(s => fits(view, s) && s.x.some((_, i) => has(value(view, s, i))));
    view.shown = all.slice(0, maxSeries);
    view.leftOut = all.length - view.shown.length;
    view.visible = view.shown.filter(s => !view.state.hidden.has(s.id));
    view.varying = view.facets.map((_, i) => i).filter(i => view.shown.some(s => s.f[i] !== view.shown[0].f[i]));
    view.mixes = [];
    const mixed = (name, values) => {
      const unlike = [...new Set(values)].sort();
      if (unlike.length > 1) view.mixes.push(`${name}: ${unlike.map(v => v || "not reported").join(", ")}`);
    };
    view.facets.forEach((f, i) => f.one && mixed(f.title, view.visible.map(s => f.found[s.f[i]])));
    for (const name of D.mixed) mixed(name, view.visible.map(s => fact(s.c, name)));
    if (view.state.metric > 0) mixed("byte basis", view.visible.map(s => s.basis));
  }

  // Theme and state ----------------------------------------------------------------------

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => D.themes.find(t => t.name === (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")));
  dark.addEventListener("change", () => views.forEach(draw));

  const flags = ["band", "fit", "logX", "logY"];

  function save() {
    const p = new URLSearchParams();
    if (document.documentElement.dataset.theme) p.set("theme", document.documentElement.dataset.theme);
    for (const view of views) {
      const was = initial(view), is = view.state;
      view.facets.forEach((f, i) => {
        const names = set => set ? [...set].sort((a, b) => a - b).map(k => encodeURIComponent(f.found[k])).join("~") : "*";
        if (names(is.chosen[i]) !== names(was.chosen[i])) p.set(`${view.name}.${f.title}`, names(is.chosen[i]));
      });
      if (is.over) p.set(view.name + ".over", view.x.title);
      if (is.metric !== was.metric) p.set(view.name + ".show", view.metrics[is.metric].name);
      if (is.q !== was.q) p.set(view.name + ".percentile", D.quantiles[is.q].name);
      for (const flag of flags) if (is[flag] !== was[flag]) p.set(`${view.name}.${flag}`, is[flag] ? "1" : "0");
      if (is.hidden.size) p.set(view.name + ".hidden", [...is.hidden].sort((a, b) => a - b).join("~"));
    }
    history.replaceState(null, "", "#" + p);
  }

  function restore() {
    const p = new URLSearchParams(location.hash.slice(1));
    if (D.themes.some(t => t.name === p.get("theme"))) document.documentElement.dataset.theme = p.get("theme");
    for (const view of views) {
      form(view, view.swap && p.get(view.name + ".over") === view.swap ? 1 : 0);
      const state = view.state = initial(view);
      view.facets.forEach((f, i) => {
        const text = p.get(`${view.name}.${f.title}`);
        if (text === null) return;
        const known = text.split("~").map(name => { try { return f.found.indexOf(decodeURIComponent(name)); } catch { return -1; } }).filter(k => k >= 0);
        state.chosen[i] = text === "*" || !known.length ? null : new Set(known);
      });
      const metric = view.metrics.findIndex(m => m.name === p.get(view.name + ".show"));
      if (metric >= 0) state.metric = metric;
      const q = D.quantiles.findIndex(q => q.name === p.get(view.name + ".percentile"));
      if (view.quantiles.includes(q)) state.q = q;
      for (const flag of flags) if (p.has(`${view.name}.${flag}`)) state[flag] = p.get(`${view.name}.${flag}`) === "1";
      const hidden = p.get(view.name + ".hidden");
      if (hidden) state.hidden = new Set(hidden.split("~").map(Number));
    }
  }

  // Drawing ------------------------------------------------------------------------------

  // A chart is drawn for its width W in pixels. frame sets its height H and the top margin, below the title.
  let W, H;
  const M = {}, savedWidth = 960;
  const ruler = make("canvas").getContext("2d");
  const widthOf = (text, bold) => {
    ruler.font = `${bold ? "600 " : ""}12px system-ui, sans-serif`;
    return ruler.measureText(text).width;
  };

  // wrap breaks a text into lines of at most a number of pixels.
  const wrap = (text, most, bold) => text.split(" ").reduce((lines, word) => {
    const longer = `${lines.at(-1)} ${word}`;
    if (!lines.length || widthOf(longer, bold) > most) lines.push(word);
    else lines[lines.length - 1] = longer;
    return lines;
  }, []);

  const lookOf = (view, s) => {
    const t = theme(), colours = t.series.length;
    // Series of one identity that measure different things share its colour, not its marker. Runs have colours if only they differ.
    const others = view.varying.filter(i => view.facets[i].one).reduce((n, i) => n + s.f[i], 0);
    const look = String(view.varying) === "0" ? s.c[0] : s.look;
    return {
      colour: t.series[look % colours],
      marker: D.markers[(look % colours + Math.floor(look / colours) + others) % D.markers.length],
      dash: D.dashes[s.c[0] % D.dashes.length], // of the run
    };
  };

  // round125 returns 1, 2 or 5 times a power of ten (or, over three decades, only that): the next below or above v.
  const round125 = (v, up, coarse) => {
    const decade = 10 ** Math.floor(Math.log10(v) + 1e-9), steps = coarse ? [1, 10] : [1, 2, 5, 10];
    return up ? decade * steps.find(k => k * decade >= v * 0.9999) : decade * steps.findLast(k => k * decade <= v * 1.0001);
  };

  // scale maps values to positions. A logarithmic axis of rates or times begins and ends at a line of its own.
  function scale(values, log, from, to, zero, lined = false) {
    let low = Math.min(...values), high = Math.max(...values);
    if (log) {
      if (lined) {
        const coarse = high / low >= 1000;
        low = round125(low, false, coarse);
        high = round125(Math.max(high, low * 1.01), true, coarse);
      }
      low = Math.log2(low); high = Math.log2(high);
      const pad = lined ? 0 : Math.max(0.15, (high - low) * 0.04);
      low -= pad; high += pad;
      const of = v => from + (Math.log2(v) - low) / (high - low) * (to - from);
      return { of, low: 2 ** low, high: 2 ** high };
    }
    if (zero) { low = Math.min(0, low); high = Math.max(0, high); }
    const pad = (high - low || 1) * 0.05;
    high += pad;
    if (low < 0) low -= pad;
    return { of: v => from + (v - low) / (high - low) * (to - from), low, high };
  }

  // ticks returns at most about as many values of an axis as have room for their labels.
  function ticks(axis, log, binary, room = 8) {
    const out = [];
    if (log) {
      const base = binary ? 2 : 10, decades = Math.log(axis.high / axis.low) / Math.log(base);
      const fine = !binary && decades < 3, step = base ** Math.max(1, Math.ceil(decades / room));
      for (let v = base ** Math.ceil(Math.log(axis.low) / Math.log(base) - 1e-9); v <= axis.high * 1.0001; v *= step)
        for (const part of fine ? [1, 2, 5] : [1]) if (v * part <= axis.high * 1.0001) out.push(v * part);
      if (fine && out.length) out.unshift(...[0.2, 0.5].map(part => out[0] * part).filter(v => v >= axis.low));
      if (out.length < (fine ? 4 : 2)) return ticks(axis, false, false, room);
      return out;
    }
    const raw = (axis.high - axis.low) / Math.min(room, 6), unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(k => k * unit).find(k => k >= raw);
    for (let v = Math.ceil(axis.low / step) * step; v <= axis.high; v += step) out.push(Number(v.toPrecision(12)));
    return out;
  }

  // between returns the lines without a label of a logarithmic axis: 2 and 5 times each power of ten, where all powers
  // have a label and nothing between them has.
  function between(axis) {
    const marks = ticks(axis, true, false), out = [];
    if (marks.length < 2 || Math.abs(marks[1] / marks[0] - 10) > 0.01) return out;
    for (const v of [marks[0] / 10, ...marks]) out.push(...[2, 5].map(part => v * part).filter(v => v > axis.low && v < axis.high));
    return out;
  }

  const round = v => Math.round(v * 10) / 10;
  const path = points => points.map((p, i) => `${i ? "L" : "M"}${round(p[0])} ${round(p[1])}`).join("");
  const stamps = (marker, points) => points.map(p => `M${round(p[0] + marker.x)} ${round(p[1] + marker.y)}${marker.path}`).join("");

  // frame begins a chart: its title, and room for a height below it.
  function frame(view, below) {
    const t = theme(), metric = metricOf(view);
    const title = `${view.title}: ${[percentile(view, metric), metric.title].filter(Boolean).join(" ")}`;
    // What all series have in common, where the page has more than that.
    const common = view.shown.length ? label(view, view.shown[0], view.facets.map((_, i) => i).filter(i => !view.varying.includes(i) && (view.facets[i].found.length > 1 || view.facets[i].one || [1, 2, 3].includes(i)))) : "";
    const left = W < 640 ? 10 : 74, most = W - left - 10, head = wrap(metric.unit ? `${title} in ${metric.unit}` : title, most, true), rest = common ? wrap(common, most) : [];
    Object.assign(M, { left: W < 640 ? 56 : 74, right: 18, top: 14 + 18 * (head.length + rest.length), bottom: 50 });
    H = M.top + below;
    const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${W} ${H}`, role: "img", "font-family": "system-ui, sans-serif", "font-size": 12 });
    root.append(svg("title", {}, [title, common].filter(Boolean).join(": ")), svg("desc", {}, `${view.visible.length} series. The table below the chart has the figures.`),
      svg("rect", { width: W, height: H, fill: t.ground }),
      ...head.map((text, k) => svg("text", { x: left, y: 20 + 18 * k, fill: t.ink, "font-weight": 600 }, text)),
      ...rest.map((text, k) => svg("text", { x: left, y: 20 + 18 * (head.length + k), fill: t.muted, class: "common" }, text)));
    return root;
  }

  // bars draws one bar for each series, where x has one value.
  function bars(view, root, points) {
    const t = theme(), given = metricOf(view).given, shown = points.slice(0, 60), each = (W - M.left - M.right) / shown.length;
    const ends = p => p.s.low && !given && view.state.q === 0 && !p.s.bad.has(p.i) ? ["low", "high"].map(name => p.y * (p.s[name][p.i] / p.s.q[0][p.i]) ** (view.state.metric ? -1 : 1)) : [];
    const Y = scale(shown.flatMap(p => [p.y, ...ends(p)]), false, H - M.bottom, M.top, true);
    for (const v of ticks(Y, false, false)) {
      const y = round(Y.of(v));
      root.append(svg("path", { d: `M${M.left} ${y}H${W - M.right}`, stroke: v === 0 ? t.muted : t.grid }),
        svg("text", { x: M.left - 8, y: y + 4, fill: t.muted, "text-anchor": "end" }, significant(v)));
    }
    shown.forEach((p, k) => {
      const x = M.left + (k + 0.5) * each, wide = Math.min(each * 0.7, 90), bad = p.s.bad.has(p.i);
      p.px = x; p.py = Y.of(p.y);
      root.append(svg("rect", { class: bad ? "bad" : "bar", x: round(x - wide / 2), y: round(Math.min(p.py, Y.of(0))), width: round(wide), height: round(Math.abs(Y.of(0) - p.py)), fill: bad ? t.ground : lookOf(view, p.s).colour, ...(bad ? { stroke: t.muted } : {}) }));
      const [low, high] = ends(p);
      if (low !== undefined && low !== high) root.append(svg("path", { class: "band", d: `M${round(x)} ${round(Y.of(low))}V${round(Y.of(high))}`, stroke: t.ink, "stroke-width": 1.5 }));
      const words = label(view, p.s, view.varying);
      if (widthOf(words) < each - 4) root.append(svg("text", { x: round(x), y: H - M.bottom + 16, fill: t.muted, "text-anchor": "middle" }, words));
    });
    root.append(svg("text", { x: (M.left + W - M.right) / 2, y: H - 10, fill: t.muted, "text-anchor": "middle" }, `at ${xLabel(view, points[0].s, points[0].i)}`));
    view.points = shown;
    return root;
  }

  function lines(view) {
    const t = theme(), { state } = view, { given } = metricOf(view), logY = state.logY && !given, root = frame(view, W < 640 ? 300 : 390);
    const series = view.visible.map(s => ({ s, points: s.x.map((x, i) => ({ s, i, x, y: value(view, s, i) })).filter(p => has(p.y) && (p.x > 0 || !state.logX)) }));
    const points = series.flatMap(l => l.points);
    view.points = points;
    if (!points.length) return root;
    if (points.every(p => p.x === points[0].x)) return bars(view, root, points);
    const { far } = view, bands = state.band && !given && series.length <= maxBands;
    const ys = points.map(p => p.y);
    if (bands) for (const p of points) ys.push(value(view, p.s, p.i, 0), value(view, p.s, p.i, far));
    // The band of a median over repeats is between the lowest and the highest of them.
    const repeated = !given && !bands && state.q === 0 && series.length <= maxBands;
    const end = (p, name) => p.y * (p.s[name][p.i] / p.s.q[0][p.i]) ** (state.metric ? -1 : 1);
    if (repeated) for (const p of points) if (p.s.low) ys.push(end(p, "low"), end(p, "high"));
    const X = scale(points.map(p => p.x), state.logX, M.left, W - M.right, true);
    const Y = scale(ys.filter(has), logY, H - M.bottom, M.top, true, true);
    for (const v of ticks(X, state.logX, state.logX, Math.min(12, Math.floor((W - M.left) / 70)))) {
      const x = round(X.of(v));
      root.append(svg("path", { d: `M${x} ${M.top}V${H - M.bottom}`, stroke: t.grid }),
        svg("text", { x, y: H - M.bottom + 16, fill: t.muted, "text-anchor": "middle" }, view.x.bytes ? bytes(v) : String(v)));
    }
    for (const v of logY ? between(Y) : []) root.append(svg("path", { class: "between", d: `M${M.left} ${round(Y.of(v))}H${W - M.right}`, stroke: t.grid, "stroke-opacity": 0.5 }));
    for (const v of ticks(Y, logY, false)) {
      const y = round(Y.of(v));
      root.append(svg("path", { d: `M${M.left} ${y}H${W - M.right}`, stroke: v === 0 && Y.low < 0 ? t.muted : t.grid }),
        svg("text", { x: M.left - 8, y: y + 4, fill: t.muted, "text-anchor": "end" }, significant(v)));
    }
    root.append(svg("text", { x: (M.left + W - M.right) / 2, y: H - 10, fill: t.muted, "text-anchor": "middle" }, view.x.unit ? `${view.x.title} in ${view.x.unit}` : view.x.title));
    for (const p of points) { p.px = X.of(p.x); p.py = Y.of(p.y); }
    for (const { s, points: all } of series) {
      const look = lookOf(view, s), good = all.filter(p => !s.bad.has(p.i)), bad = all.filter(p => s.bad.has(p.i));
      if (bands && good.every(p => s.q[far][p.i] > 0)) {
        const edge = (q, list) => list.map(p => [X.of(p.x), Y.of(value(view, s, p.i, q))]);
        root.append(svg("path", { class: "band", d: path(edge(0, good)) + path(edge(far, [...good].reverse())).replace(/^M/, "L") + "z", fill: look.colour, "fill-opacity": 0.15 }));
      }
      if (repeated && s.low && good.length) {
        const edge = name => good.map(p => [p.px, Y.of(end(p, name))]);
        root.append(svg("path", { class: "band", d: path(edge("low")) + path(edge("high").reverse()).replace(/^M/, "L") + "z", fill: look.colour, "fill-opacity": 0.15 }));
      }
      root.append(svg("path", { class: "line", d: path(good.map(p => [p.px, p.py])), fill: "none", stroke: look.colour, "stroke-width": 1.8, "stroke-dasharray": look.dash }),
        svg("path", { class: "points", d: stamps(look.marker, good.map(p => [p.px, p.py])), fill: look.colour }));
      if (bad.length) root.append(svg("path", { class: "bad", d: stamps(look.marker, bad.map(p => [p.px, p.py])), fill: t.ground, stroke: t.muted }));
      if (state.fit && state.metric === 0) for (const f of s.fits) drawFit(root, X, Y, f, t);
    }
    return root;
  }

  // drawFit draws a segment of α + n/B, which is curved on logarithmic axes.
  function drawFit(root, X, Y, [first, last, from, to], t) {
    const points = [];
    for (let k = 0; k <= 24; k++) {
      const x = first * (last / first) ** (k / 24);
      points.push([X.of(x), Y.of(from + (to - from) * (x - first) / (last - first))]);
    }
    root.append(svg("path", { class: "fit", d: path(points), fill: "none", stroke: t.ink, "stroke-width": 1, "stroke-dasharray": "1 3" }));
  }

  const mix = (a, b, part) => "#" + [1, 3, 5].map(i => {
    const [x, y] = [a, b].map(c => parseInt(c.slice(i, i + 2), 16));
    return Math.round(x + (y - x) * part).toString(16).padStart(2, "0");
  }).join("");

  // readable returns the ink or the ground of a theme: the one with more contrast to a colour.
  const readable = (t, fill) => {
    const light = colour => [1, 3, 5].reduce((sum, i, k) => {
      const c = parseInt(colour.slice(i, i + 2), 16) / 255;
      return sum + [0.2126, 0.7152, 0.0722][k] * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    }, 0.05);
    const contrast = colour => Math.max(light(colour) / light(fill), light(fill) / light(colour));
    return contrast(t.ink) > contrast(t.ground) ? t.ink : t.ground;
  };

  function grids(view) {
    const t = theme(), shown = view.visible.slice(0, maxGrids), gap = 34;
    const columns = Math.max(1, Math.min(shown.length, 3, Math.floor(W / 300))), size = Math.min(420, (W - gap * (columns + 1)) / columns), rows = Math.ceil(shown.length / columns);
    const names = shown.map(s => wrap(label(view, s, view.varying) || label(view, s, [1, 2, 3]), size));
    const lines = Math.max(0, ...names.map(n => n.length)), row = size + 18 * lines + 34;
    const root = frame(view, rows * row + 60);
    view.points = shown.flatMap(s => s.x.map((x, i) => ({ s, i, x, y: value(view, s, i) })).filter(p => has(p.y)));
    const counted = view.points.filter(p => !p.s.bad.has(p.i)).map(p => p.y);
    const low = Math.min(...counted), high = Math.max(...counted);
    const part = v => high > low ? (v - low) / (high - low) : 1;
    shown.forEach((s, k) => {
      const world = worldOf(view, s), cell = size / world, every = Math.ceil(18 / cell);
      const left = gap + (k % columns) * (size + gap), top = M.top + 18 * lines + 22 + Math.floor(k / columns) * row;
      names[k].forEach((text, n) => root.append(svg("text", { x: left, y: top - 22 - 18 * (names[k].length - 1 - n), fill: t.ink }, text)));
      for (let r = 0; r < world; r += every) root.append(
        svg("text", { x: left + (r + 0.5) * cell, y: top - 5, fill: t.muted, "text-anchor": "middle", "font-size": 11 }, r),
        svg("text", { x: left - 5, y: top + (r + 0.5) * cell + 4, fill: t.muted, "text-anchor": "end", "font-size": 11 }, r));
      for (const p of view.points.filter(p => p.s === s)) {
        const bad = s.bad.has(p.i), row = Math.floor(p.x / world), column = p.x % world;
        p.px = left + (column + 0.5) * cell; p.py = top + (row + 0.5) * cell;
        const fill = bad ? t.ground : mix(...t.heat, part(p.y));
        root.append(svg("rect", { class: bad ? "bad" : "cell", x: round(left + column * cell + 0.5), y: round(top + row * cell + 0.5), width: round(cell - 1), height: round(cell - 1), fill, ...(bad ? { stroke: t.muted, "stroke-dasharray": "2 2" } : {}) }));
        const text = significant(p.y);
        if (cell >= 24 && text.length * 6.5 < cell) root.append(svg("text", { x: round(p.px), y: round(p.py + 4), "text-anchor": "middle", "font-size": 11, fill: bad ? t.muted : readable(t, fill) }, text));
      }
    });
    if (counted.length) scaleOf(root, t, low, high, metricOf(view), M.top + rows * row, gap);
    return root;
  }

  // scaleOf draws the legend of heat maps: a bar of their colours over the figures at its ends and in its middle.
  function scaleOf(root, t, low, high, metric, y, x) {
    const wide = Math.min(320, W - 2 * x), steps = high > low ? 32 : 1;
    for (let k = 0; k < steps; k++) root.append(svg("rect", { class: "scale", x: round(x + k * wide / steps), y: y + 18, width: round(wide / steps + 0.3), height: 12, fill: mix(...t.heat, steps > 1 ? k / (steps - 1) : 1) }));
    root.append(svg("text", { x, y: y + 12, fill: t.muted, class: "scale" }, metric.unit ? `${metric.title} in ${metric.unit}` : metric.title));
    const marks = high > low ? [["start", 0], ["middle", 0.5], ["end", 1]] : [["start", 0]];
    for (const [anchor, at] of marks) root.append(svg("text", { x: x + at * wide, y: y + 45, fill: t.muted, "text-anchor": anchor, class: "scale" }, significant(low + (high - low) * at)));
  }

  const swatch = (view, s) => {
    const look = lookOf(view, s), e = svg("svg", { viewBox: "-16 -7 32 14", width: 32, height: 14, "aria-hidden": true });
    e.append(svg("path", { d: "M-15 0H15", stroke: look.colour, "stroke-width": 1.8, "stroke-dasharray": look.dash }),
      svg("path", { d: stamps(look.marker, [[0, 0]]), fill: look.colour }));
    return e;
  };

  // chart draws what is selected in a view, for a width.
  function chart(view, width) {
    W = view.width = width;
    return view.shape === "grid" ? grids(view) : lines(view);
  }

  function draw(view) {
    select(view);
    const root = chart(view, view.plot.clientWidth || savedWidth);
    const cursor = svg("circle", { class: "cursor", r: 8, fill: "none", stroke: theme().ink, "stroke-width": 1.5, visibility: "hidden" });
    root.append(cursor);
    view.cursor = cursor;
    view.plot.replaceChildren(root);
    view.plot.setAttribute("aria-label", `${view.title}: a chart of ${view.visible.length} series. Arrow keys move from point to point, Escape leaves them.`);
    point(view, null);
    const notes = [...view.mixes.map(m => `This chart mixes different values of ${m}. Do not compare across them.`)];
    view.banner.replaceChildren(...notes.map(text => make("span", { textContent: text })));
    view.banner.hidden = !notes.length;
    const remarks = [];
    if (!view.shown.length) remarks.push("No series has this combination. Choose another value above.");
    if (view.leftOut) remarks.push(`${view.leftOut} more series not drawn: choose fewer values.`);
    if (view.shape === "grid" && view.visible.length > maxGrids) remarks.push(`${view.visible.length - maxGrids} more squares not drawn: hide some of these.`);
    if (view.state.band && view.visible.length > maxBands) remarks.push(`Bands are drawn for at most ${maxBands} series.`);
    if (view.state.fit && view.state.metric > 0) remarks.push("Fits are of the latency.");
    view.remark.textContent = remarks.join(" ");
    legend(view);
    for (const details of view.tables) if (details.open) fill(view, details);
  }

  // legend makes a button for each shown series, unless these buttons exist already.
  function legend(view) {
    const is = [theme().name, view.state.over, view.varying, view.shown.map(s => s.id), [...view.state.hidden]].join(";");
    if (view.legend.dataset.is === is) return;
    view.legend.dataset.is = is;
    view.legend.replaceChildren(...view.shown.map(s => {
      const button = make("button", { type: "button", className: "series", title: label(view, s, view.facets.map((_, i) => i)) }, swatch(view, s), label(view, s, view.varying) || label(view, s, [1, 2, 3]));
      button.setAttribute("aria-pressed", String(!view.state.hidden.has(s.id)));
      button.addEventListener("click", e => {
        const { hidden } = view.state;
        if (e.shiftKey) view.shown.forEach(o => o === s ? hidden.delete(o.id) : hidden.add(o.id));
        else if (!hidden.delete(s.id)) hidden.add(s.id);
        change(view);
        view.legend.children[view.shown.indexOf(s)].focus();
      });
      return button;
    }));
  }

  function change(view) {
    draw(view);
    controls(view);
    save();
  }

  // A point under the pointer or the keyboard ----------------------------------------------

  function point(view, p) {
    view.state.at = p;
    view.tip.hidden = !p;
    view.cursor.setAttribute("visibility", p ? "visible" : "hidden");
    if (!p) return;
    view.cursor.setAttribute("cx", p.px);
    view.cursor.setAttribute("cy", p.py);
    const { s, i } = p, lines = [];
    const add = (text, className = "") => lines.push(make("div", { textContent: text, className }));
    add(label(view, s, view.facets.map((_, k) => k)), "name");
    add(xLabel(view, s, i));
    if (s.low) add(`median of ${count(s.repeats[i], "repeat")}: p50 from ${significant(s.low[i])} to ${significant(s.high[i])} µs`);
    if (s.bad.has(i)) add(s.bad.get(i), "reason");
    add(view.metrics[0].title + " " + view.quantiles.filter(q => s.q[q][i] > 0).map(q => `${view.time ? "" : D.quantiles[q].name + " "}${significant(s.q[q][i])}`).join(", ") + " µs");
    view.rates.forEach((r, k) => {
      const v = figureOf(view, s, i, k + 1);
      if (has(v)) add(`${rateTitle(view, { ...r, unit: "" })} ${significant(v)} ${r.unit}`.trim());
    });
    if (!view.time) add(s.n[i] ? count(s.n[i], "sample") : "derived, no samples of its own");
    for (const f of s.fits) if (f[0] <= s.x[i] && s.x[i] <= f[1]) add("fit: " + f[4]);
    add(`case ${s.c[1]}, ${s.c[3]}${s.c[4] ? ": " + s.c[4] : ""}`);
    add(["device", "library version", "topology", "contract"].map(name => fact(s.c, name)).filter(Boolean).join(", "));
    add("comparison key " + s.c[2]);
    view.tip.replaceChildren(...lines);
    const box = view.plot.getBoundingClientRect(), ratio = box.width / view.width;
    const x = p.px * ratio, y = p.py * ratio;
    view.tip.style.left = Math.max(0, Math.min(x + 14, box.width - view.tip.offsetWidth)) + "px";
    view.tip.style.top = y + 18 + "px";
  }

  function hover(view, e) {
    const box = view.plot.getBoundingClientRect(), ratio = view.width / box.width;
    const x = (e.clientX - box.left) * ratio, y = (e.clientY - box.top) * ratio;
    let best = null, least = 40 ** 2;
    for (const p of view.points) {
      const d = (p.px - x) ** 2 + (p.py - y) ** 2;
      if (d < least) { least = d; best = p; }
    }
    if (best !== view.state.at) point(view, best);
  }

  function keys(view, e) {
    const all = view.points, at = all.indexOf(view.state.at);
    if (!all.length) return;
    const near = (s, x) => all.filter(p => p.s === s).reduce((a, b) => Math.abs(b.px - x) < Math.abs(a.px - x) ? b : a);
    const drawn = [...new Set(all.map(p => p.s))];
    const own = at < 0 ? [] : all.filter(p => p.s === all[at].s), k = own.indexOf(all[at]);
    const other = by => {
      if (view.shape === "grid") {
        return own.find(p => p.x === all[at].x + by * worldOf(view, all[at].s)) || all[at];
      }
      return near(drawn[(drawn.indexOf(all[at].s) + by + drawn.length) % drawn.length], all[at].px);
    };
    let next;
    switch (e.key) {
      case "ArrowRight": next = at < 0 ? all[0] : own[Math.min(k + 1, own.length - 1)]; break;
      case "ArrowLeft": next = at < 0 ? all[0] : own[Math.max(k - 1, 0)]; break;
      case "Home": next = own[0] || all[0]; break;
      case "End": next = own[own.length - 1] || all[0]; break;
      case "ArrowDown": next = at < 0 ? all[0] : other(1); break;
      case "ArrowUp": next = at < 0 ? all[0] : other(-1); break;
      case "Escape": next = null; break;
      default: return;
    }
    e.preventDefault();
    point(view, next);
    view.told.textContent = next ? [...view.tip.children].map(line => line.textContent).join(". ") : "";
  }

  // Controls -------------------------------------------------------------------------------

  function choice(title, options, chosen, pick) {
    const select = make("select", {}, ...options.map((text, i) => make("option", { value: i, textContent: text, selected: i === chosen })));
    select.addEventListener("change", () => pick(Number(select.value)));
    return make("label", { className: "choice" }, make("span", { textContent: title }), select);
  }

  // over chooses the x of a view. The values chosen for other facets stay.
  function over(view, k) {
    const { state } = view;
    form(view, k);
    const fresh = initial(view);
    view.state = { ...state, over: k, hidden: new Set(), at: null, chosen: state.chosen.map((set, i) => view.facets[i].found === view.forms[1 - k].facets[i].found ? set : fresh.chosen[i]) };
  }

  function toggle(title, on, flip) {
    const button = make("button", { type: "button", textContent: title });
    button.setAttribute("aria-pressed", String(on));
    button.addEventListener("click", flip);
    return button;
  }

  function controls(view) {
    const { state } = view, focused = [...view.controls.querySelectorAll("button, select")].indexOf(document.activeElement);
    const row = [
      choice("show", view.metrics.map(m => m.unit ? `${m.title} (${m.unit})` : m.title), state.metric, k => { state.metric = k; change(view); }),
    ];
    if (percentile(view, metricOf(view))) row.push(
      choice("percentile", view.quantiles.map(q => D.quantiles[q].name), view.quantiles.indexOf(state.q), k => { state.q = view.quantiles[k]; change(view); }));
    if (view.swap) row.push(choice("over", [view.forms[0].x.title, view.swap], state.over, k => { over(view, k); change(view); }));
    if (view.shape === "lines") {
      const band = view.far > 0 ? [["band", `${D.quantiles[0].name}–${D.quantiles[view.far].name} band`]] : [];
      for (const [name, title] of [["logX", "log x"], ...(metricOf(view).given ? [] : [["logY", "log y"], ...band]), ...(view.hasFits ? [["fit", "fits"]] : [])])
        row.push(toggle(title, state[name], () => { state[name] = !state[name]; change(view); }));
    }
    row.push(toggle("save SVG", false, () => saveFigure(view, "svg")), toggle("save PNG", false, () => saveFigure(view, "png")));
    row.slice(-2).forEach(b => b.removeAttribute("aria-pressed"));
    const facets = view.facets.map((facet, i) => {
      if (facet.found.length < 2) return null;
      const group = make("fieldset", {}, make("legend", { textContent: facet.title }));
      const pick = set => { state.chosen[i] = set; change(view); };
      group.append(toggle("all", !state.chosen[i], () => pick(null)));
      facet.found.forEach((text, k) => {
        const on = state.chosen[i] ? state.chosen[i].has(k) : false;
        const button = toggle(text || "none", on, e => {
          const set = new Set(state.chosen[i] || []);
          // A click shows one value of a facet that separates kinds; with shift it adds one.
          if (facet.one && !e.shiftKey) return pick(new Set([k]));
          if (!set.delete(k)) set.add(k);
          pick(set.size ? set : null);
        });
        if (!view.series.some(s => s.f[i] === k && fits(view, s, i))) button.classList.add("none");
        group.append(button);
      });
      return group;
    }).filter(Boolean);
    view.controls.replaceChildren(make("div", { className: "row" }, ...row), make("div", { className: "row" }, ...facets));
    if (focused >= 0) view.controls.querySelectorAll("button, select")[focused]?.focus();
  }

  // Saved figures have the legend and the banner in them.
  function figure(view) {
    const t = theme(), root = chart(view, savedWidth), height = H, { left } = M;
    const list = view.visible.slice(0, 40), lines = view.mixes.length + list.length + (view.visible.length > list.length ? 1 : 0);
    const whole = height + 14 + lines * 18;
    root.setAttribute("viewBox", `0 0 ${savedWidth} ${whole}`);
    root.setAttribute("width", savedWidth);
    root.setAttribute("height", whole);
    draw(view); // for the screen again
    root.querySelector("rect").setAttribute("height", whole);
    let y = height + 10;
    for (const m of view.mixes) { root.append(svg("text", { x: left, y, fill: t.ink, "font-weight": 600 }, `Mixes different values of ${m}`)); y += 18; }
    for (const s of list) {
      const mark = swatch(view, s);
      for (const [name, v] of [["x", left], ["y", y - 11]]) mark.setAttribute(name, v);
      root.append(mark, svg("text", { x: left + 40, y, fill: t.ink }, label(view, s, view.facets.map((_, i) => i))));
      y += 18;
    }
    if (view.visible.length > list.length) root.append(svg("text", { x: left, y, fill: t.muted }, `and ${view.visible.length - list.length} more series`));
    return root;
  }

  function download(blob, name) {
    const link = make("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  }

  async function saveFigure(view, kind) {
    const root = figure(view), name = `collectivex-${view.name}.${kind}`;
    const picture = new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" });
    if (kind === "svg") return download(picture, name);
    const image = new Image(), url = URL.createObjectURL(picture);
    image.src = url;
    await image.decode();
    const canvas = make("canvas", { width: 2 * root.getAttribute("width"), height: 2 * root.getAttribute("height") });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    canvas.toBlob(blob => download(blob, name), "image/png");
  }

  // Tables ---------------------------------------------------------------------------------

  // fill makes the tables of a chart when they are opened.
  function fill(view, details) {
    const table = make("table");
    const head = (names, figures) => table.append(make("thead", {}, make("tr", {}, ...names.map((name, i) => make("th", { textContent: name, className: i >= figures ? "figure" : "", scope: "col" })))));
    const groups = new Map();
    const body = key => {
      if (!groups.has(key)) groups.set(key, make("tbody"));
      return groups.get(key);
    };
    const every = view.facets.map((_, i) => i);
    if (details.dataset.table === "figures") {
      const times = view.quantiles.map(q => (view.time || D.quantiles[q].name) + " µs"), rates = view.rates.map(r => rateTitle(view, r));
      head(["series", view.x.title, "state", ...times, ...rates, ...(view.time ? [] : ["samples"])], 3);
      let rows = 0;
      for (const s of view.visible) {
        const name = label(view, s, every);
        for (let i = 0; i < s.x.length && ++rows <= maxRows; i++) {
          const bad = s.bad.get(i), n = view.time ? "" : count(s.n[i], "sample");
          const x = make("td", { textContent: xLabel(view, s, i) });
          x.dataset.value = s.x[i];
          body(s.c[2] + s.f.filter((_, k) => view.facets[k].one)).append(make("tr", { className: bad ? "bad" : "" }, make("td", { textContent: name }), x, make("td", { textContent: bad || "ok" }),
            ...view.quantiles.map(q => number(figureOf(view, s, i, 0, q), n, spread(s, i, 0, q))),
            ...view.rates.map((r, k) => number(figureOf(view, s, i, k + 1), n, r.given ? "" : spread(s, i, k + 1, view.state.q))), ...(view.time ? [] : [number(s.n[i], n)])));
        }
      }
    } else {
      const names = [...new Set(view.visible.flatMap(s => facts(s.c).map(f => f[0])))];
      head(["series", "case", "status", "comparison key", "time", ...names], Infinity);
      for (const s of view.visible) body("").append(make("tr", {}, ...[label(view, s, every), s.c[1], s.c[4] ? `${s.c[3]}: ${s.c[4]}` : s.c[3], s.c[2], s.c[6], ...names.map(name => fact(s.c, name))].map(textContent => make("td", { textContent }))));
    }
    table.append(...groups.values());
    const scroll = make("div", { className: "scroll", tabIndex: 0 }, table);
    scroll.setAttribute("role", "group");
    scroll.setAttribute("aria-label", details.firstElementChild.textContent);
    const left = details.dataset.table === "figures" ? view.visible.reduce((n, s) => n + s.x.length, 0) - maxRows : 0;
    details.replaceChildren(details.firstElementChild, scroll, make("p", { className: "remark", textContent: left > 0 ? `${left} more rows left out: choose fewer series.` : "" }));
    live(table, view.name + "-" + details.dataset.table);
  }

  function number(v, title, spread = "") {
    const cell = make("td", { className: "figure", textContent: has(v) ? significant(v) + spread : "–", title });
    cell.dataset.value = has(v) ? v : "";
    return cell;
  }

  // live makes a table sortable and adds a button that saves it as CSV. Rows of different comparison keys are
  // in different bodies, which stay together and are in the order of their first rows.
  function live(table, name) {
    const bodies = [...table.tBodies];
    const text = cell => cell.dataset.value ?? cell.textContent;
    const prefixes = { k: 1e3, M: 1e6, G: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, PiB: 1024 ** 5, EiB: 1024 ** 6 };
    const figure = text => { // +1.5 %, ±2 %, 5+5, 3.31 M, 512 KiB
      const [, number, prefix] = text.match(/^[±<>]?([-+]?[\d.]+(?:e[-+]?\d+)?)(?: ([kMG]|[KMGTPE]iB))?(?!\w)/) ?? [];
      return Number(number) * (prefixes[prefix] ?? 1);
    };
    const order = (a, b) => {
      const [x, y] = [figure(a), figure(b)];
      if (!Number.isNaN(x) && !Number.isNaN(y) && x !== y) return x - y;
      return (a === "") - (b === "") || a.localeCompare(b, "en", { numeric: true });
    };
    [...table.tHead.rows[0].cells].forEach((th, column) => {
      const button = make("button", { type: "button", textContent: th.textContent, title: th.classList.contains("figure") && bodies.length > 1 ? "Rows of equal comparison keys stay together; do not rank unlike ones" : "" });
      th.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = th.getAttribute("aria-sort") === "ascending", sign = down ? -1 : 1;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        const by = (a, b) => sign * order(text(a.cells[column]), text(b.cells[column]));
        for (const body of bodies) body.append(...[...body.rows].sort(by));
        table.append(...bodies.sort((a, b) => by(a.rows[0], b.rows[0])));
      });
    });
    const csv = make("button", { type: "button", className: "csv", textContent: "save CSV" });
    csv.addEventListener("click", () => {
      const quote = text => {
        if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = "'" + text; // not a formula
        return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      };
      const rows = [...table.rows].map(row => [...row.cells].map(cell => quote(text(cell))).join(","));
      download(new Blob([rows.join("\n") + "\n"], { type: "text/csv" }), `collectivex-${name}.csv`);
    });
    (table.closest(".scroll") || table).before(csv);
  }

  // ----------------------------------------------------------------------------------------

  for (const view of views) {
    view.banner = $(".banner", view.root);
    view.controls = make("div", { className: "controls" });
    view.plot = make("div", { className: "plot", tabIndex: 0 });
    view.plot.setAttribute("role", "application"); // screen readers leave the arrow keys to the page
    view.plot.setAttribute("aria-roledescription", "chart");
    view.tip = make("div", { className: "tip", hidden: true });
    view.told = make("div", { className: "told" }); // what a screen reader says of the point that a key chose
    view.told.setAttribute("role", "status");
    view.remark = make("p", { className: "remark" });
    view.legend = make("div", { className: "legend" });
    view.legend.setAttribute("role", "group");
    view.legend.setAttribute("aria-label", "series");
    view.tables = [["figures", "Figures of this chart"], ["provenance", "Provenance of these series"]].map(([kind, title]) => {
      const details = make("details", {}, make("summary", { textContent: title }));
      details.dataset.table = kind;
      details.addEventListener("toggle", () => details.open && fill(view, details));
      return details;
    });
    const holder = make("div", { className: "holder" }, view.plot, view.tip, view.told);
    const figure = $("figure", view.root);
    figure.className = "live";
    figure.replaceChildren(view.controls, holder, view.legend, view.remark, ...view.tables);
    for (const event of ["pointermove", "pointerdown"]) view.plot.addEventListener(event, e => hover(view, e));
    view.plot.addEventListener("pointerleave", () => point(view, null));
    view.plot.addEventListener("keydown", e => keys(view, e));
    view.plot.addEventListener("blur", () => point(view, null));
  }
  const all = () => { restore(); for (const view of views) { draw(view); controls(view); } };
  restore();
  for (const view of views) { // the first chart is seen before the others are drawn
    draw(view);
    controls(view);
    performance.mark("chart");
    await new Promise(done => setTimeout(done));
  }
  window.addEventListener("hashchange", all);
  const resized = new ResizeObserver(() => requestAnimationFrame(() => {
    document.documentElement.style.setProperty("--nav", $("nav").offsetHeight + "px");
    for (const view of views) {
      view.root.style.setProperty("--controls", view.controls.offsetHeight + "px");
      if (view.plot.clientWidth && view.plot.clientWidth !== view.width) draw(view);
    }
  }));
  for (const e of [$("nav"), ...views.flatMap(view => [view.controls, view.plot])]) resized.observe(e);
  for (const table of document.querySelectorAll("table[data-name]")) live(table, table.dataset.name);
  const search = $("#search");
  search.hidden = false;
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of document.querySelectorAll("table[data-name]")) for (const body of table.tBodies) for (const row of body.rows)
      row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
    if (words.length) $("#coverage details").open = true;
  });
  const look = $("#theme");
  look.hidden = false;
  look.addEventListener("click", () => {
    document.documentElement.dataset.theme = theme().name === "dark" ? "light" : "dark";
    views.forEach(draw);
    save();
  });
  document.documentElement.dataset.ready = "yes";
})();
