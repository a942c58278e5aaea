// Draws the charts (rows of dots, and lines) from the page's data.
"use strict";

const Charts = (() => {
  const DASHES = ["solid", "dashed", "dotted"];
  const ROW_HEIGHT = 23;
  const NARROW = 640;
  const LABEL_HEIGHT = 15;
  const LABEL_WIDTH = 250;
  const PANEL_HEIGHT = 300;
  const SYMBOLS = ["circle", "diamond", "triangle", "rect"];

  const drawn = [];

  function narrow(host) { return host.clientWidth < NARROW; }

  function text(colour = "soft", size = 12) {
    return { color: Theme.colour(colour), fontSize: size, fontFamily: "inherit" };
  }

  function base() {
    return {
      animation: false,
      aria: { enabled: true },
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      tooltip: {
        trigger: "item",
        confine: true,
        backgroundColor: Theme.colour("paper"),
        borderColor: Theme.colour("rule"),
        textStyle: { color: Theme.colour("ink"), fontSize: 13 },
        renderMode: "html",
      },
      legend: { top: 0, left: 0, itemWidth: 10, itemHeight: 10, itemGap: 16, textStyle: text(), inactiveColor: Theme.colour("rule") },
    };
  }

  function logarithmic(values) {
    const low = Math.min(...values), high = Math.max(...values);
    return { min: 10 ** Math.floor(Math.log10(low) + 1e-9), max: 10 ** Math.ceil(Math.log10(high) - 1e-9) };
  }

  function axis(unit, name, bounds) {
    return {
      type: "log",
      ...bounds,
      name,
      nameLocation: "middle",
      nameGap: 30,
      nameTextStyle: text(),
      axisLabel: { ...text(), formatter: Figures.of(unit).tick, hideOverlap: true },
      axisLine: { show: false },
      axisTick: { show: false },
      splitLine: { lineStyle: { color: Theme.colour("rule") } },
      minorTick: { show: false },
    };
  }

  function escape(text) {
    const box = document.createElement("span");
    box.textContent = text;
    return box.innerHTML;
  }

  function tip(name, lines) {
    const rows = lines.map(([label, value]) =>
      `<tr><td style="padding:0 12px 0 0;border:0;text-align:left">${escape(label)}</td><td style="text-align:right;border:0;padding:0">${escape(value)}</td></tr>`);
    return `<b>${escape(name)}</b><table style="font-size:13px;min-width:0">${rows.join("")}</table>`;
  }

  // A row of dots for each contestant, best on top.
  function dots(spec, rows, host) {
    const figure = Figures.of(spec.unit);
    const firstOf = (row) => row.values.find((value) => value !== null);
    const isNull = (row) => row.kind === "null";
    const sorted = rows.filter((row) => firstOf(row) !== undefined).sort((a, b) =>
      (isNull(a) - isNull(b)) || (spec.better === "less" ? 1 : -1) * (firstOf(a) - firstOf(b)));
    const names = sorted.map((row) => row.name);
    const all = sorted.flatMap((row) => row.values.filter((value) => value !== null && value > 0));
    const bounds = spec.unit === "share" ? { min: 0, max: 1 } : logarithmic(all);
    const width = narrow(host) ? Math.min(150, host.clientWidth * 0.42) : 300;
    const colourOf = (row, mark) => Theme.colour(`${row.ours ? "mine" : row.kind}-${Math.min(mark, 2)}`);

    const series = spec.marks.map((mark, index) => ({
      name: mark,
      type: "scatter",
      symbol: SYMBOLS[index % SYMBOLS.length],
      symbolSize: index === 0 ? 11 : 10,
      z: 10 - index,
      itemStyle: { color: Theme.colour(`null-${Math.min(index, 2)}`) },
      data: sorted.flatMap((row, place) => row.values[index] === null ? [] : [{
        value: [row.values[index], place],
        row,
        itemStyle: row.kind === "alone"
          ? { color: Theme.colour("paper"), borderColor: colourOf(row, index), borderWidth: 2 }
          : { color: colourOf(row, index), borderColor: Theme.colour("paper"), borderWidth: 1 },
      }]),
      emphasis: { scale: 1.4 },
    }));
    // A thin line joins the dots of a row; a thick line is the interval of a dot.
    series[0].markLine = {
      silent: true,
      symbol: "none",
      label: { show: false },
      animation: false,
      data: sorted.flatMap((row, place) => {
        const there = row.values.filter((value) => value !== null);
        const thin = { color: colourOf(row, 2), width: 1.5, type: "solid", opacity: 0.9 };
        const thick = { color: colourOf(row, 1), width: 5, type: "solid", opacity: 0.35 };
        const ends = [[Math.min(...there), Math.max(...there), thin]];
        for (const range of row.ranges ?? []) {
          if (range && range[1] > range[0]) ends.push([range[0], range[1], thick]);
        }
        return ends.map(([low, high, lineStyle]) => [{ coord: [low, place], lineStyle }, { coord: [high, place] }]);
      }),
    };
    const common = base();
    return {
      height: 96 + names.length * ROW_HEIGHT,
      option: {
        ...common,
        legend: {
          ...common.legend,
          data: spec.marks.map((name, index) => ({ name, icon: SYMBOLS[index % SYMBOLS.length] })),
        },
        grid: { left: width + 12, right: 34, top: 36, bottom: 52, outerBoundsMode: "none" },
        tooltip: {
          ...common.tooltip,
          formatter: ({ data }) => tip(data.row.name, spec.marks.flatMap((mark, index) => {
            const value = data.row.values[index];
            const range = data.row.ranges?.[index];
            if (value === null) return [];
            const spread = range && range[1] > range[0] ? ` (${figure.exact(range[0])} to ${figure.exact(range[1])})` : "";
            return [[mark, figure.exact(value) + spread]];
          })),
        },
        xAxis: spec.unit === "share"
          ? { ...axis(spec.unit, spec.axis, bounds), type: "value" }
          : axis(spec.unit, spec.axis, bounds),
        yAxis: {
          type: "category",
          inverse: true,
          data: names,
          axisLine: { show: false },
          axisTick: { show: false },
          splitLine: { show: true, interval: 0, lineStyle: { color: Theme.colour("rule"), opacity: 0.5 } },
          axisLabel: {
            interval: 0,
            width,
            overflow: "truncate",
            fontSize: 12,
            color: (_, index) => Theme.colour(sorted[index].ours ? "accent" : isNull(sorted[index]) ? "faint" : "ink"),
            formatter: (name, index) => sorted[index].ours ? `{ours|${name}}` : name,
            rich: { ours: { fontWeight: 700, color: Theme.colour("accent"), fontSize: 12 } },
          },
        },
        series,
      },
    };
  }

  function legendHeight(rows) { return 8 + Math.ceil(rows.length / 2) * 16; }

  // Labels at the ends of the lines, moved apart where they would overlap. Returns graphics.
  function endLabels(chart, labels, height) {
    const top = 14, bottom = height - 56;
    const placed = labels.map((label) => ({
      ...label,
      at: chart.convertToPixel({ gridIndex: 0 }, label.point),
    })).sort((a, b) => a.at[1] - b.at[1]);
    let free = top;
    for (const label of placed) {
      label.y = Math.max(label.at[1], free);
      free = label.y + LABEL_HEIGHT;
    }
    // Labels below the end of the chart move up again.
    let limit = bottom;
    for (const label of placed.toReversed()) {
      label.y = Math.min(label.y, limit);
      limit = label.y - LABEL_HEIGHT;
    }
    const left = chart.getWidth() - LABEL_WIDTH;
    return placed.flatMap(({ row, series, at, y, colour }) => [
      {
        type: "polyline", silent: true, z: 1,
        shape: { points: [[at[0] + 4, at[1]], [left - 12, y], [left - 4, y]] },
        style: { stroke: colour, opacity: 0.45, lineWidth: 1, fill: null },
      },
      {
        type: "text", x: left, y,
        style: {
          text: row.ended ? `${row.name} ■` : row.name,
          fill: colour,
          font: `${row.ours ? 700 : 400} 11.5px ${getComputedStyle(document.body).fontFamily}`,
          width: LABEL_WIDTH - 4,
          overflow: "truncate",
          verticalAlign: "middle",
        },
        onmouseover: () => chart.dispatchAction({ type: "highlight", seriesIndex: series }),
        onmouseout: () => chart.dispatchAction({ type: "downplay", seriesIndex: series }),
        onclick: () => Records.show(row.name, row.lines),
      },
    ]);
  }

  // One line of a chart, drawn as the `index`th of its family.
  function line(row, index) {
    const colour = Theme.colour(`${family(row)}-${index % 2}`);
    const dash = row.ours ? DASHES[(index >> 1) % DASHES.length] : row.kind === "null" ? "dotted" : DASHES[index % DASHES.length];
    return {
      name: row.name,
      type: "line",
      data: row.points.map((point, at) => ({
        value: point,
        row,
        ...(row.ended && at === row.points.length - 1 ? { symbol: "rect", symbolSize: 8 } : {}),
      })),
      symbol: "circle",
      symbolSize: row.ours ? 6 : 4,
      triggerLineEvent: true,
      z: row.ours ? 10 : 2,
      lineStyle: { width: row.ours ? 3 : 1.5, color: colour, type: dash },
      itemStyle: { color: colour },
      emphasis: { focus: "series", blurScope: "coordinateSystem", lineStyle: { width: row.ours ? 4 : 3 } },
      blur: { lineStyle: { opacity: 0.15 }, itemStyle: { opacity: 0.15 } },
    };
  }

  function family(row) { return row.ours ? "mine" : row.kind; }

  // Lines of one name look the same; different names of a family look different.
  function looks(rows) {
    const found = new Map(), seen = {};
    for (const row of rows) {
      if (!found.has(row.name)) found.set(row.name, seen[family(row)] = (seen[family(row)] ?? -1) + 1);
    }
    return found;
  }

  function acrossAxis(spec, name, rows) {
    const xs = rows.flatMap((row) => row.points.map(([x]) => x));
    return spec.across_log
      ? axis(spec.across_unit, name, logarithmic(xs))
      : { ...axis(spec.across_unit, name, { min: 0, max: Math.max(...xs) }), type: "value" };
  }

  function upAxis(spec, linear, rows) {
    const ys = rows.flatMap((row) => row.points.map(([, y]) => y)).filter((y) => y > 0);
    return linear
      ? { ...axis(spec.up_unit, undefined, { min: 0 }), type: "value" }
      : axis(spec.up_unit, undefined, logarithmic(ys));
  }

  function lineTooltip(spec, rows, common) {
    const up = Figures.of(spec.up_unit), across = Figures.of(spec.across_unit);
    return {
      ...common.tooltip,
      formatter: ({ data, seriesIndex }) => {
        const row = rows[seriesIndex];
        if (!data?.value) return escape(row.name);
        const said = [[spec.across, across.exact(data.value[0])], [spec.up, up.exact(data.value[1])]];
        if (row.ended) said.push(["ended", row.ended]);
        return tip(row.name, said);
      },
    };
  }

  // Lines with their names at their ends.
  function lines(spec, rows, host, linear) {
    const small = narrow(host);
    const look = looks(rows);
    const common = base();
    return {
      labels: small ? [] : rows.map((row, index) => ({
        row, series: index, point: row.points.at(-1), colour: Theme.colour(`${family(row)}-0`),
      })),
      height: small ? 380 + legendHeight(rows) : Math.max(440, 80 + rows.length * LABEL_HEIGHT),
      option: {
        ...common,
        grid: small
          ? { left: 58, right: 26, top: 16, bottom: 60 + legendHeight(rows), outerBoundsMode: "none" }
          : { left: 70, right: LABEL_WIDTH + 22, top: 16, bottom: 52, outerBoundsMode: "none" },
        legend: {
          ...common.legend,
          show: small,
          top: undefined,
          bottom: 0,
          left: 0,
          right: 0,
          type: "plain",
          icon: "roundRect",
          itemGap: 8,
          textStyle: { ...text("soft", 11), width: host.clientWidth / 2 - 40, overflow: "truncate" },
        },
        tooltip: lineTooltip(spec, rows, common),
        xAxis: acrossAxis(spec, spec.across, rows),
        yAxis: upAxis(spec, linear, rows),
        series: rows.map((row) => line(row, look.get(row.name))),
      },
    };
  }

  // Small charts of lines side by side, with one legend for all.
  function panels(spec, rows, host, linear) {
    const columns = narrow(host) ? 1 : 2;
    const look = looks(rows);
    const there = spec.panels.filter((panel) => rows.some((row) => row.panel === panel));
    const ordered = there.flatMap((panel) => rows.filter((row) => row.panel === panel));
    const common = base();
    const width = host.clientWidth / columns;
    // The legend is at the top; a letter is about 6.5 pixels wide.
    const widths = [...look.keys()].map((name) => name.length * 6.5 + 56);
    const legend = 22 * Math.ceil(widths.reduce((sum, one) => sum + one, 0) / (host.clientWidth * 0.85));
    const places = there.map((_, index) => ({
      left: (index % columns) * width, top: legend + Math.floor(index / columns) * PANEL_HEIGHT,
    }));
    const own = (panel) => rows.filter((row) => row.panel === panel);
    return {
      labels: [],
      height: legend + Math.ceil(there.length / columns) * PANEL_HEIGHT,
      rows: ordered,
      option: {
        ...common,
        title: there.map((panel, index) => ({
          text: panel,
          left: places[index].left + 56,
          top: places[index].top + 8,
          textStyle: { ...text("ink", 13), fontWeight: 600 },
        })),
        grid: places.map(({ left, top }) => ({
          left: left + 62, top: top + 40, width: width - 92, height: PANEL_HEIGHT - 92, outerBoundsMode: "none",
        })),
        legend: { ...common.legend, right: 0, itemWidth: 28, textStyle: { ...text(), ...common.textStyle } },
        tooltip: lineTooltip(spec, ordered, common),
        xAxis: there.map((panel, index) => ({ ...acrossAxis(spec, spec.across, own(panel)), gridIndex: index })),
        yAxis: there.map((panel, index) => ({ ...upAxis(spec, linear, own(panel)), gridIndex: index })),
        series: ordered.map((row) => ({
          ...line(row, look.get(row.name)),
          xAxisIndex: there.indexOf(row.panel),
          yAxisIndex: there.indexOf(row.panel),
        })),
      },
    };
  }

  function drawing(spec, rows, host, linear) {
    if (spec.kind === "dots") return dots(spec, rows, host);
    return spec.panels.length ? panels(spec, rows, host, linear) : lines(spec, rows, host, linear);
  }

  class Chart {
    constructor(figure, spec) {
      this.figure = figure;
      this.spec = spec;
      this.host = figure.querySelector(".chart");
      this.linear = spec.kind === "lines" && !spec.up_log;
      this.echarts = null;
      this.scale = figure.querySelector(".scale");
      this.scale?.addEventListener("click", () => {
        this.linear = !this.linear;
        this.scale.setAttribute("aria-pressed", this.linear);
        this.draw();
      });
      figure.addEventListener("picked", () => this.draw());
      let width = 0;
      new ResizeObserver(() => {
        if (this.host.clientWidth !== width) {
          width = this.host.clientWidth;
          this.draw();
        }
      }).observe(this.host);
    }

    draw() {
      if (!this.host.clientWidth) return;
      const wanted = Pickers.chosen(this.figure);
      const rows = this.spec.rows.filter((row) => Pickers.matches(row.keys, wanted));
      this.figure.classList.toggle("empty", rows.length === 0);
      const { height, option, labels, rows: ordered } = drawing(this.spec, rows, this.host, this.linear);
      this.host.style.height = `${height}px`;
      if (!this.echarts) {
        this.echarts = echarts.init(this.host, null, { renderer: "svg" });
        this.echarts.on("click", ({ data, seriesIndex }) => {
          const row = data?.row ?? this.rows?.[seriesIndex];
          if (row) Records.show(row.name, row.lines);
        });
      }
      this.rows = ordered ?? rows;
      this.echarts.resize({ height });
      this.echarts.setOption(option, { notMerge: true });
      if (labels?.length) this.echarts.setOption({ graphic: endLabels(this.echarts, labels, height) });
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const specs = JSON.parse(document.getElementById("charts-data").textContent);
    const waiting = new Set(document.querySelectorAll("figure[data-chart]"));
    function begin(figure) {
      if (waiting.delete(figure)) drawn.push(new Chart(figure, specs[Number(figure.dataset.chart)]));
    }
    // A chart is drawn when it scrolls close to the window, or when the page is printed.
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) begin(entry.target);
    }, { rootMargin: "600px" });
    for (const figure of waiting) near.observe(figure);
    window.addEventListener("beforeprint", () => {
      for (const figure of [...waiting]) begin(figure);
      for (const chart of drawn) chart.draw();
    });
  });
  document.addEventListener("themechange", () => { for (const chart of drawn) chart.draw(); });

  return { drawn };
})();
