
'use strict';
(() => {

// What memory is used for, in the ledger's words and in the order of the legend.
const STATES = {
  leased: 'a live lease is on it',
  loading: 'being filled, or on its way into a pool',
  idle: 'online, without a lease',
  quarantined: 'a session may still read it without a lease',
  retained: 'offline, kept for its TTL',
  padding: 'alignment and rounding; drawn with what it belongs to',
  pooled: 'in a session’s pool, in no buffer',
  cached: 'held from the system, nobody’s',
  stranded: 'given back, still pinned by somebody',
  unbacked: 'not asked for yet',
  lost: 'its device is gone',
};
const HATCHED = {quarantined: 'rising', loading: 'falling', stranded: 'upright', lost: 'upright'};
const POLL_MS = 1000;
const MOST_POINTS = 3600;
const ROW = 28;  // height of a row of the list
const $ = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'color') element.style.setProperty('--c', value);
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

// --- Words for numbers.

function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; ++unit; }
  const digits = unit === 0 || Number.isInteger(bytes) ? 0 : bytes < 10 ? 2 : bytes < 100 ? 1 : 0;
  return `${bytes.toFixed(digits)} ${units[unit]}`;
}

function spanText(seconds) {
  const pad = (n) => String(Math.floor(n)).padStart(2, '0');
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${pad(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h ${pad(seconds % 3600 / 60)}m`;
  return `${Math.floor(seconds / 86400)}d ${pad(seconds % 86400 / 3600)}h`;
}

const word = (name, prefix) => (name || '').replace(prefix, '').toLowerCase();
const plural = (n, one, many) => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
const seconds = (duration) => duration === undefined ? undefined : parseFloat(duration);
const shortKey = (key) => `${key.slice(0, 8)}…`;

// --- The map, read: entries are what the list shows, items what the tapes are made of.

function readMap(json) {
  const sessions = new Map((json.sessions || []).map((each) => [each.session_id, each]));
  const who = (id) => {
    const session = sessions.get(id);
    return session ? `${session.program}/${session.instance}` : 'a session that ended';
  };
  const map = {
    version: json.version, boot: json.boot_id, time: new Date(json.time), uptime: seconds(json.uptime),
    devices: [], entries: [], items: new Map(), byId: new Map(),
  };
  for (const device of json.devices || []) {
    const read = {
      name: device.name, backend: device.backend, uuid: device.uuid, lost: device.lost,
      total: Number(device.total_bytes), foreign: Number(device.foreign_bytes), arenas: [],
    };
    for (const arena of device.arenas || []) read.arenas.push(readArena(map, read, arena, who));
    map.devices.push(read);
  }
  return map;
}

function readArena(map, device, json, who) {
  const ledger = {};
  for (const [name, value] of Object.entries(json.ledger)) ledger[name] = name === 'arena' ? value : Number(value);
  const arena = {
    name: ledger.arena, key: `${device.name}/${ledger.arena}`, ledger, items: [],
    capacity: ledger.capacity || ledger.lost, waiting: Number(json.waiting || 0),
  };
  const add = (item) => {
    item.arena = arena;
    item.device = device;
    item.end = (arena.items.length ? arena.items[arena.items.length - 1].end : 0) + item.bytes;
    item.index = arena.items.length;
    arena.items.push(item);
    map.items.set(item.id, item);
    return item;
  };
  const list = (entry) => {
    entry.order = map.entries.length;
    map.entries.push(entry);
    map.byId.set(entry.id, entry);
    return entry;
  };
  for (const region of json.regions || []) {
    const holders = (region.holders || []).map((each) => ({
      name: who(each.session_id), session: each.session_id, leases: each.leases || 0, mapped: each.mapped,
      quarantined: each.quarantined, left: seconds(each.lease_expires_in),
    }));
    const lefts = holders.map((each) => each.left).filter((left) => left !== undefined);
    const entry = list({
      id: `${arena.key}/region ${region.region_id}`, kind: 'region', state: word(region.holding, 'HOLDING_'),
      name: region.model || 'no model', revision: region.revision, bytes: Number(region.bytes), holders,
      left: region.expires_in !== undefined ? seconds(region.expires_in) : lefts.length ? Math.max(...lefts) : undefined,
      layout: region.architecture_key, region, arena, device,
    });
    entry.search = [entry.name, entry.layout, entry.state, ...holders.map((each) => each.name)].join('\n').toLowerCase();
    add({id: entry.id, entry, state: entry.state, bytes: entry.bytes, label: entry.name});
  }
  for (const pool of json.pools || []) {
    const size = Number(pool.segment_bytes);
    const name = who(pool.session_id);
    const segments = pool.segments || [];
    const buffers = (pool.buffers || []).map((each) => ({
      offset: Number(each.offset), size: Number(each.size), requested: Number(each.requested),
      kind: word(each.kind, 'BUFFER_KIND_'), age: seconds(each.age),
    }));
    const used = buffers.reduce((sum, each) => sum + each.size, 0) +
        size * segments.filter((each) => each.state === 'POOL_SEGMENT_STATE_GRANTED').length;
    const entry = list({
      id: `${arena.key}/pool ${pool.pool_id}`, kind: 'pool', state: !pool.live ? 'quarantined' : used > 0 ? 'leased' : 'pooled',
      name, bytes: size * segments.length, used, left: seconds(pool.lease_expires_in), holders: [], pool, buffers, arena, device,
    });
    entry.search = `${name}\n${entry.state}\npool`.toLowerCase();
    segments.forEach((segment, number) => {
      const offset = Number(segment.offset);
      const stands = word(segment.state, 'POOL_SEGMENT_STATE_');
      const state = !pool.live || segment.unanswered ? 'quarantined' :
          stands === 'coming' ? 'loading' : stands === 'granted' ? 'leased' : 'pooled';
      add({
        id: `${entry.id}/${offset}`, entry, state, stands, bytes: size, offset, label: name, segment: true,
        buffers: buffersIn(buffers, offset, offset + size), mapped: segment.mapped, number,
      });
    });
  }
  for (const run of json.cached || []) addNobodys(add, arena, 'cached', Number(run.size), Number(run.count));
  const cached = (json.cached || []).reduce((sum, run) => sum + run.size * run.count, 0);
  addNobodys(add, arena, 'cached', ledger.cached - cached, 1, 'on its way back to the system');
  addNobodys(add, arena, 'stranded', ledger.stranded, 1);
  addNobodys(add, arena, 'unbacked', ledger.unbacked, 1);
  return arena;
}

// Buffers are by offset and do not overlap.
function buffersIn(buffers, begin, end) {
  let low = 0;
  let high = buffers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (buffers[middle].offset + buffers[middle].size <= begin) low = middle + 1; else high = middle;
  }
  const found = [];
  for (; low < buffers.length && buffers[low].offset < end; ++low) found.push(buffers[low]);
  return found;
}

function addNobodys(add, arena, state, size, count, note) {
  if (!(size > 0)) return;
  const most = count > 400 ? 1 : count;
  for (let i = 0; i < most; ++i) {
    add({id: `${arena.key}/${state} ${size} ${note || ''} ${i}`, state, bytes: size * count / most, label: '', note});
  }
}

// --- Colours and patterns, anew when the theme changes.

let paint = {};
function readPaint() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  paint = {ink: get('ink'), quiet: get('quiet'), line: get('line'), empty: get('empty'), edge: get('empty-edge'),
    focus: get('focus'), halo: get('halo'), accent: get('accent'), fill: {}, text: {}, hatch: {}};
  for (const state of Object.keys(STATES)) {
    paint.fill[state] = state === 'unbacked' ? paint.empty : get(state);
    paint.text[state] = get(`${state}-ink`) || paint.quiet;
  }
  for (const [state, way] of Object.entries(HATCHED)) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 8;
    const context = tile.getContext('2d');
    context.strokeStyle = get('hatch');
    context.lineWidth = 1.6;
    context.beginPath();
    for (const shift of [-8, 0, 8]) {
      if (way === 'rising') { context.moveTo(shift, 8); context.lineTo(shift + 8, 0); }
      if (way === 'falling') { context.moveTo(shift, 0); context.lineTo(shift + 8, 8); }
      if (way === 'upright') { context.moveTo(shift + 4, 0); context.lineTo(shift + 4, 8); }
    }
    context.stroke();
    paint.hatch[state] = context.createPattern(tile, 'repeat');
  }
}

function sharp(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 600;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.textBaseline = 'middle';
  context.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
  return {context, width, height};
}

// --- What is shown.

const shown = {map: null, filter: '', selected: null, hovered: null, sort: ['order', 1], entries: [], paused: false,
  history: new Map(), opened: performance.now(), sections: new Map(), snapshot: false};

const matches = (item) => !shown.filter || (item.entry !== undefined && item.entry.search.includes(shown.filter));
const selectedItem = () => shown.map && shown.map.items.get(shown.selected);

// One arena as a tape that wraps over rows of one scale.
class Tape {
  constructor(arena) {
    this.canvas = el('canvas', {class: 'tape', tabindex: '0', role: 'application', 'aria-roledescription': 'memory map',
      'aria-describedby': 'keys'});
    this.canvas.addEventListener('keydown', (event) => this.onKey(event));
    this.canvas.addEventListener('focus', () => { if (!this.mine()) this.go(this.next(-1, 1)); });
    this.canvas.addEventListener('mousemove', (event) => hover(this.at(event.offsetX, event.offsetY), event));
    this.canvas.addEventListener('mouseleave', () => hover(null));
    this.canvas.addEventListener('click', (event) => {
      const item = this.at(event.offsetX, event.offsetY);
      if (item) select(item.id, 'tape');
    });
    this.update(arena);
  }

  update(arena) { this.arena = arena; }
  mine() { const item = selectedItem(); return item && item.arena === this.arena ? item : null; }

  // How many bytes a row has: a power of two, so that its ticks are round, and few enough that items can be seen.
  measure(width) {
    const {items, capacity} = this.arena;
    const owned = items.filter((item) => item.entry);
    const smallest = owned.length ? Math.min(...owned.slice(0, 20000).map((item) => item.bytes)) : capacity;
    const wanted = Math.min(22, Math.max(owned.length * 5 / width, Math.min(6, 3 * capacity / (smallest * width))));
    let row = capacity;
    if (wanted > 1.2) row = 2 ** Math.floor(Math.log2(capacity / wanted));
    this.rows = Math.max(1, Math.ceil(capacity / row));
    this.rowBytes = row;
    this.gutter = this.rows > 1 ? 64 : 0;
    this.rowHeight = this.rows === 1 ? 40 : this.rows <= 4 ? 30 : this.rows <= 10 ? 22 : 16;
    this.pitch = this.rowHeight + (this.rows > 10 ? 3 : 5);
    this.top = 22;
    this.scale = (width - this.gutter - 1) / row;
  }

  // The rectangles of an item, one for each row that it lies in.
  pieces(item, begin = item.end - item.bytes, end = item.end) {
    const pieces = [];
    for (let row = Math.floor(begin / this.rowBytes); row < this.rows && begin < end; ++row) {
      const rowEnd = Math.min(end, (row + 1) * this.rowBytes);
      pieces.push({x: this.gutter + (begin - row * this.rowBytes) * this.scale, y: this.top + row * this.pitch,
        w: (rowEnd - begin) * this.scale, h: this.rowHeight});
      begin = rowEnd;
    }
    return pieces;
  }

  draw() {
    const {arena} = this;
    const width = this.canvas.clientWidth || 600;
    this.measure(width);
    const {context} = sharp(this.canvas, this.top + this.rows * this.pitch);
    this.context = context;
    this.drawScale(width);
    for (const item of arena.items) this.drawItem(item);
    const chosen = selectedItem();
    if (chosen && chosen.entry) this.drawKin(chosen);
    if (shown.hovered && shown.hovered !== chosen && shown.hovered.arena === arena) this.outline(shown.hovered, 1.5, 2);
    if (this.mine()) this.outline(chosen, 2, 5);
    const owned = arena.items.filter((item) => item.entry).length;
    this.canvas.setAttribute('aria-label', `${arena.key.replace('/', ', ')}: ${plural(owned, 'part', 'parts')} in use, ` +
        `${bytesText(arena.ledger.allocated)} of ${bytesText(arena.capacity)} allocated`);
  }

  drawScale(width) {
    const {context} = this;
    const step = 2 ** Math.ceil(Math.log2(this.rowBytes / (width > 700 ? 8 : 4)));
    const bottom = this.top + this.rows * this.pitch - (this.pitch - this.rowHeight);
    context.fillStyle = paint.quiet;
    context.strokeStyle = paint.line;
    context.lineWidth = 1;
    for (let at = 0; at <= this.rowBytes * 1.0001; at += step) {
      const x = Math.round(this.gutter + at * this.scale) + 0.5;
      context.beginPath();
      context.moveTo(x, this.top - 5);
      context.lineTo(x, bottom);
      context.stroke();
      const text = at === 0 ? '0' : bytesText(at);
      const room = context.measureText(text).width;
      if (at > 0 && x + room / 2 > width) context.textAlign = 'right'; else context.textAlign = at === 0 ? 'left' : 'center';
      context.fillText(text, context.textAlign === 'right' ? width : x, 8);
    }
    context.textAlign = 'right';
    for (let row = 0; this.gutter > 0 && row < this.rows; ++row) {
      context.fillText(row === 0 ? '0' : bytesText(row * this.rowBytes), this.gutter - 10,
          this.top + row * this.pitch + this.rowHeight / 2);
    }
    context.textAlign = 'left';
  }

  drawItem(item) {
    const {context} = this;
    context.globalAlpha = item.entry && !matches(item) ? 0.16 : shown.filter && !item.entry ? 0.5 : 1;
    const pieces = this.pieces(item);
    let widest = pieces[0];
    for (const piece of pieces) {
      this.fill(piece, item.state);
      if (piece.w > widest.w) widest = piece;
    }
    if (item.segment && item.state === 'pooled') {
      const start = item.end - item.bytes;
      for (const buffer of item.buffers) {
        const begin = start + Math.max(0, buffer.offset - item.offset);
        const end = Math.min(item.end, start + buffer.offset + buffer.size - item.offset);
        for (const piece of this.pieces(item, begin, end)) this.fill({...piece, y: piece.y + 2, h: piece.h - 4}, 'leased', 0);
      }
    }
    const text = item.label && widest && widest.w > 34 ? this.fitting(item.label, widest.w - 13) : '';
    if (text) {
      context.fillStyle = paint.text[item.state === 'pooled' && item.buffers.length ? 'leased' : item.state];
      context.fillText(text, widest.x + 6, widest.y + widest.h / 2 + 0.5);
    }
    context.globalAlpha = 1;
  }

  // The name, or its last part, or as much of that as has room.
  fitting(name, room) {
    const {context} = this;
    const last = name.slice(name.lastIndexOf('/') + 1) || name;
    for (const text of [name, last]) if (context.measureText(text).width <= room) return text;
    for (let length = last.length - 1; length >= 3; --length) {
      const text = `${last.slice(0, length)}…`;
      if (context.measureText(text).width <= room) return text;
    }
    return '';
  }

  fill(piece, state, radius = 2.5) {
    const {context} = this;
    const w = Math.max(0.7, piece.w > 3 ? piece.w - 1 : piece.w);
    context.beginPath();
    if (w > 8 && radius > 0) context.roundRect(piece.x, piece.y, w, piece.h, radius);
    else context.rect(piece.x, piece.y, w, piece.h);
    context.fillStyle = paint.fill[state];
    context.fill();
    if (state === 'unbacked') {
      context.strokeStyle = paint.edge;
      context.lineWidth = 1;
      context.stroke();
    }
    if (paint.hatch[state]) {
      context.fillStyle = paint.hatch[state];
      context.fill();
    }
  }

  // What belongs to the selected one: the rest of its pool, and regions that could take its place.
  drawKin(chosen) {
    for (const item of this.arena.items) {
      if (item === chosen || !item.entry) continue;
      const kin = item.entry === chosen.entry || (chosen.entry.layout && item.entry.layout === chosen.entry.layout);
      if (!kin) continue;
      for (const piece of this.pieces(item)) {
        this.context.fillStyle = paint.focus;
        this.context.fillRect(piece.x, piece.y + piece.h - 3, Math.max(1, piece.w - 1), 3);
      }
    }
  }

  outline(item, line, least) {
    const {context} = this;
    for (const piece of this.pieces(item)) {
      const w = Math.max(least, piece.w - 1);
      const x = piece.x - (w - Math.max(0, piece.w - 1)) / 2;
      context.strokeStyle = paint.halo;
      context.lineWidth = line + 3;
      context.strokeRect(x, piece.y, w, piece.h);
      context.strokeStyle = paint.focus;
      context.lineWidth = line;
      context.strokeRect(x, piece.y, w, piece.h);
    }
  }

  at(x, y) {
    const row = Math.floor((y - this.top) / this.pitch);
    if (row < 0 || row >= this.rows || x < this.gutter) return null;
    const bytes = row * this.rowBytes + (x - this.gutter) / this.scale;
    const {items} = this.arena;
    let low = 0;
    let high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle].end <= bytes) low = middle + 1; else high = middle;
    }
    return low < items.length ? items[low] : null;
  }

  // The first item from `index` on, that way, which the filter lets through; null if there is none.
  next(index, way) {
    const {items} = this.arena;
    for (let i = index + way; i >= 0 && i < items.length; i += way) if (matches(items[i])) return items[i];
    return null;
  }

  go(item) { if (item) select(item.id, 'tape', true); }

  onKey(event) {
    const {items} = this.arena;
    const now = this.mine();
    const index = now ? now.index : -1;
    const moves = {
      ArrowRight: () => this.next(index, 1), ArrowLeft: () => this.next(index, -1),
      ArrowDown: () => this.across(now, 1), ArrowUp: () => this.across(now, -1),
      PageDown: () => this.next(Math.min(items.length - 2, index + 9), 1) || this.next(items.length, -1),
      PageUp: () => this.next(Math.max(1, index - 9), -1) || this.next(-1, 1),
      Home: () => this.next(-1, 1), End: () => this.next(items.length, -1),
    };
    if (event.key in moves && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      this.go(moves[event.key]());
    }
  }

  // What lies in the next row, under or above the middle of `item`.
  across(item, way) {
    if (!item) return this.next(-1, 1);
    const middle = item.end - item.bytes / 2 + way * this.rowBytes;
    const {items} = this.arena;
    if (middle < 0 || middle >= items[items.length - 1].end) return null;
    const found = items.find((each) => each.end > middle);
    if (found === item) return this.next(item.index, way);
    return matches(found) ? found : this.next(found.index, way);
  }
}

// Allocated, reserved and fragmentation since the page was opened.
function drawChart(canvas, arena) {
  const {context, width, height} = sharp(canvas, 72);
  const points = shown.history.get(arena.key) || [];
  const now = performance.now();
  const first = shown.opened;
  const x = (time) => (time - first) / Math.max(60000, now - first) * width;
  const y = (share) => 3 + (1 - share) * (height - 5);
  context.strokeStyle = paint.line;
  context.lineWidth = 1;
  for (const share of [0, 0.5, 1]) {
    context.beginPath();
    context.moveTo(0, Math.round(y(share)) + 0.5);
    context.lineTo(width, Math.round(y(share)) + 0.5);
    context.stroke();
  }
  if (points.length === 0 || !arena.capacity) return;
  const line = (value, color, dashes) => {
    context.beginPath();
    points.forEach((point, i) => context[i ? 'lineTo' : 'moveTo'](x(point.time), y(value(point))));
    context.lineTo(x(now), y(value(points[points.length - 1])));
    context.strokeStyle = color;
    context.lineWidth = 1.75;
    context.setLineDash(dashes);
    context.lineJoin = 'round';
    context.stroke();
    context.setLineDash([]);
  };
  context.beginPath();
  context.moveTo(x(points[0].time), y(0));
  for (const point of points) context.lineTo(x(point.time), y(point.allocated / arena.capacity));
  context.lineTo(x(now), y(points[points.length - 1].allocated / arena.capacity));
  context.lineTo(x(now), y(0));
  context.globalAlpha = 0.18;
  context.fillStyle = paint.fill.leased;
  context.fill();
  context.globalAlpha = 1;
  line((point) => point.reserved / arena.capacity, paint.quiet, []);
  line((point) => point.allocated / arena.capacity, paint.fill.leased, []);
  line((point) => point.fragmentation, paint.fill.quarantined, [4, 4]);
}

// --- Sections: one for each device, kept from map to map.

function sectionOf(device) {
  let section = shown.sections.get(device.name);
  if (section && section.arenas.size === device.arenas.length) return section;
  const head = el('header', {}, el('h2', {}, device.name), el('span', {class: 'quiet backend'}),
      el('span', {class: 'uuid mono'}, device.uuid), el('p', {class: 'lost'}));
  section = {root: el('section', {class: 'card device', 'aria-label': device.name}, head), arenas: new Map()};
  for (const arena of device.arenas) {
    const tape = new Tape(arena);
    const chart = el('canvas', {role: 'img'});
    const labels = el('div', {class: 'labels'});
    const sums = el('div', {class: 'sums'});
    const root = el('div', {class: 'arena'}, sums, tape.canvas,
        shown.snapshot ? undefined : el('div', {class: 'chart'}, labels, chart));
    section.arenas.set(arena.name, {tape, chart, labels, sums});
    section.root.append(root);
  }
  shown.sections.set(device.name, section);
  return section;
}

function renderDevices() {
  const sections = shown.map.devices.map((device) => {
    const section = sectionOf(device);
    section.root.querySelector('.backend').textContent = `${device.backend}, ${bytesText(device.total)}` +
        (device.foreign > 0 ? `, of which others use ${bytesText(device.foreign)}` : '');
    const lost = section.root.querySelector('.lost');
    lost.textContent = device.lost ? `Does not serve any more: ${device.lost}` : '';
    lost.hidden = !device.lost;
    for (const arena of device.arenas) renderArena(section.arenas.get(arena.name), arena);
    return section.root;
  });
  const host = $('devices');
  if (sections.some((root, i) => host.children[i] !== root) || host.children.length !== sections.length) {
    host.replaceChildren(...sections);
  }
}

function renderArena(parts, arena) {
  const {ledger} = arena;
  const sum = (name, value) => el('span', {}, `${name} `, el('b', {}, value));
  parts.sums.replaceChildren(el('h3', {}, arena.name),
      sum('allocated', `${bytesText(ledger.allocated)} of ${bytesText(arena.capacity)}`), sum('free', bytesText(ledger.free)),
      sum('largest free', bytesText(ledger.largest_free)), sum('fragmentation', ledger.fragmentation_ratio.toFixed(3)));
  if (arena.waiting > 0) parts.sums.append(sum('waiting', plural(arena.waiting, 'request', 'requests')));
  const labels = [['allocated', bytesText(ledger.allocated), 'var(--leased)', 'key'],
    ['reserved', bytesText(ledger.reserved), 'var(--quiet)', 'key'],
    ['fragmentation', ledger.fragmentation_ratio.toFixed(3), 'var(--quarantined)', 'key dashed']];
  parts.labels.replaceChildren(...labels.map(([name, value, color, key]) =>
      el('span', {}, el('span', {class: key, color}), `${name} ${value}`)),
  el('span', {}, `of ${bytesText(arena.capacity)}, over ${spanText(Math.max(1, (performance.now() - shown.opened) / 1000))}`));
  parts.chart.setAttribute('aria-label', labels.map(([name, value]) => `${name} ${value}`).join(', '));
  parts.tape.update(arena);
}

function drawTapes() {
  if (!shown.map) return;
  for (const device of shown.map.devices) {
    const section = shown.sections.get(device.name);
    for (const arena of device.arenas) {
      const parts = section.arenas.get(arena.name);
      parts.tape.draw();
      if (!shown.snapshot) drawChart(parts.chart, arena);
    }
  }
}

function renderLegend() {
  const sums = {};
  for (const device of shown.map.devices) {
    for (const {ledger} of device.arenas) for (const state of Object.keys(STATES)) sums[state] = (sums[state] || 0) + ledger[state];
  }
  $('legend').replaceChildren(...Object.entries(STATES).filter(([state]) => state !== 'lost' || sums.lost > 0).map(([state, meaning]) =>
      el('li', {title: meaning, class: sums[state] > 0 ? '' : 'none'},
          el('span', {class: 'swatch', 'data-state': state, color: `var(--${state})`}), state,
          el('span', {class: 'bytes'}, bytesText(sums[state] || 0)))));
}

function renderFacts() {
  const {map} = shown;
  const total = map.devices.reduce((sum, device) => sum + device.arenas.reduce((part, arena) => part + arena.ledger.capacity, 0), 0);
  $('facts').textContent = `tenured ${map.version}, boot ${map.boot.slice(0, 8)}, up ${spanText(map.uptime)} · ` +
      `${plural(map.devices.length, 'device', 'devices')}, ${bytesText(total)} in arenas`;
}

// --- The list.

const COLUMNS = [['name', 'Model or program', ''], ['bytes', 'Size', 'number'], ['left', 'Time left', 'number']];

function renderColumns() {
  const host = $('list-columns');
  host.replaceChildren(el('span'));
  for (const [key, title, style] of COLUMNS) {
    const [sorted, way] = shown.sort;
    const button = el('button', {type: 'button', class: style, 'aria-sort': sorted !== key ? 'none' : way > 0 ? 'ascending' : 'descending',
      'data-key': key}, title);
    button.addEventListener('click', () => {
      const first = key === 'bytes' ? -1 : 1;
      shown.sort = sorted !== key ? [key, first] : way === first ? [key, -first] : ['order', 1];
      renderColumns();
      renderList();
      host.querySelector(`[data-key=${key}]`).focus();
    });
    host.append(button);
  }
}

function renderList() {
  const [key, way] = shown.sort;
  const value = (entry) => key === 'left' ? entry.left ?? Infinity : entry[key];
  const compare = (a, b) => (value(a) < value(b) ? -way : value(a) > value(b) ? way : a.order - b.order);
  shown.entries = shown.map.entries.filter((entry) => !shown.filter || entry.search.includes(shown.filter)).sort(compare);
  const all = shown.map.entries.length;
  $('list-count').textContent = shown.filter ? `${shown.entries.length.toLocaleString('en')} of ${all.toLocaleString('en')}` : all.toLocaleString('en');
  $('list').setAttribute('aria-rowcount', shown.entries.length);
  $('list-body').style.height = `${shown.entries.length * ROW}px`;
  renderRows();
}

// Only the rows that can be seen exist.
function renderRows() {
  const list = $('list');
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 6);
  const last = Math.min(shown.entries.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 6);
  const chosen = selectedItem();
  const rows = [];
  for (let i = first; i < last; ++i) {
    const entry = shown.entries[i];
    const selected = chosen !== undefined && chosen !== null && chosen.entry === entry;
    const row = el('div', {class: 'row', role: 'row', id: `row-${i}`, 'aria-rowindex': i + 1, 'aria-selected': selected},
        el('span', {class: 'swatch', role: 'gridcell', 'data-state': entry.state, color: `var(--${entry.state})`, 'aria-label': entry.state}),
        el('span', {role: 'gridcell', title: entry.name}, entry.name, entry.revision ? el('span', {class: 'quiet'}, `@${entry.revision}`) : null,
            entry.kind === 'pool' ? el('span', {class: 'quiet'}, ' pool') : null),
        el('span', {role: 'gridcell', class: 'number'}, bytesText(entry.bytes)),
        el('span', {role: 'gridcell', class: 'number quiet'}, entry.left === undefined ? '' : spanText(entry.left)));
    row.style.transform = `translateY(${i * ROW}px)`;
    row.addEventListener('click', () => select(firstItem(entry), 'list'));
    rows.push(row);
  }
  $('list-body').replaceChildren(...rows);
  const index = chosen && chosen.entry ? shown.entries.indexOf(chosen.entry) : -1;
  if (index >= first && index < last) list.setAttribute('aria-activedescendant', `row-${index}`);
  else list.removeAttribute('aria-activedescendant');
}

function firstItem(entry) {
  if (shown.map.items.has(entry.id)) return entry.id;
  const item = entry.arena.items.find((each) => each.entry === entry);
  return item ? item.id : null;
}

function revealRow() {
  const item = selectedItem();
  const index = item && item.entry ? shown.entries.indexOf(item.entry) : -1;
  if (index < 0) return;
  const list = $('list');
  if (index * ROW < list.scrollTop) list.scrollTop = index * ROW;
  if ((index + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (index + 1) * ROW - list.clientHeight;
}

function onListKey(event) {
  const item = selectedItem();
  const now = item && item.entry ? shown.entries.indexOf(item.entry) : -1;
  const page = Math.floor($('list').clientHeight / ROW);
  const to = {ArrowDown: now + 1, ArrowUp: now - 1, PageDown: now + page, PageUp: now - page, Home: 0, End: shown.entries.length - 1}[event.key];
  if (to === undefined || shown.entries.length === 0) return;
  event.preventDefault();
  select(firstItem(shown.entries[Math.max(0, Math.min(shown.entries.length - 1, to))]), 'list', true);
}

// --- One of them.

function select(id, from, aloud = false) {
  if (id === null) return;
  shown.selected = id;
  if (from === 'tape') revealRow();
  renderRows();
  if (from === 'list') revealRow();
  renderDetail();
  drawTapes();
  if (aloud) announce();
}

function announce() {
  const item = selectedItem();
  if (!item) return;
  const {entry} = item;
  const held = entry && entry.holders.length ? `, ${plural(entry.holders.length, 'holder', 'holders')}` : '';
  const left = entry && entry.left !== undefined ? `, ${spanText(entry.left)} left` : '';
  $('announce').textContent = entry ?
    `${entry.name}${entry.revision ? ` revision ${entry.revision}` : ''}, ${item.state}, ${bytesText(item.bytes)}${held}${left}` :
    `${item.state}, ${bytesText(item.bytes)}`;
}

function holderText(holder) {
  const parts = [];
  if (holder.leases > 0) parts.push(plural(holder.leases, 'lease', 'leases'));
  if (holder.left !== undefined) parts.push(`${spanText(holder.left)} left`);
  if (holder.quarantined) parts.push('in quarantine');
  else if (holder.leases === 0 && holder.mapped) parts.push('mapped, for quick return');
  return parts.join(', ');
}

function renderDetail() {
  const item = selectedItem();
  const host = $('detail');
  if (!item) {
    host.replaceChildren(el('h2', {}, 'Nothing selected'),
        el('p', {class: 'quiet'}, 'Point at a part of a tape, or reach it with the arrow keys, to see what lies there and who holds it.'));
    return;
  }
  const {entry, device, arena} = item;
  const fields = el('dl');
  const field = (name, value, style) => { if (value !== undefined) fields.append(el('dt', {}, name), el('dd', {class: style || ''}, value)); };
  field('Size', entry && entry.kind === 'pool' ? `${bytesText(entry.bytes)}, ${bytesText(entry.used)} in use` : bytesText(item.bytes));
  field('Where', `${device.name}, ${arena.name}`);
  if (entry && entry.kind === 'region') {
    const {region} = entry;
    const kin = arena.items.filter((each) => each.entry && each.entry !== entry && each.entry.layout === entry.layout).length;
    field('Region', `${region.region_id}, generation ${region.generation}`);
    field('State', word(region.state, 'MODEL_STATE_') + (region.pinned ? ', pinned' : ''));
    field('Layout', el('span', {title: entry.layout}, el('span', {class: 'mono'}, shortKey(entry.layout)),
        ` ${plural(Number(region.tensor_count), 'tensor', 'tensors')}${kin ? `, ${plural(kin, 'other', 'others')} alike` : ''}`));
    field('Segments', (region.segments || []).map((run) => `${run.count} × ${bytesText(Number(run.size))}`).join(' + ') || 'none yet');
    field('Time left', region.expires_in !== undefined ? `${spanText(entry.left)}, then reclaimed` : undefined);
    field('Holders', entry.holders.length === 0 ? 'nobody' : el('ul', {class: 'holders'}, ...entry.holders.slice(0, 8).map((holder) =>
        el('li', {}, holder.name, el('br'), el('span', {class: 'quiet'}, `session ${holder.session}: ${holderText(holder)}`))),
    entry.holders.length > 8 ? el('li', {class: 'quiet'}, `and ${entry.holders.length - 8} more`) : null));
  } else if (entry) {
    field('Pool', `${entry.pool.pool_id}, session ${entry.pool.session_id}`);
    field('Lease', entry.pool.live ? `${spanText(entry.left ?? 0)} left, unless renewed` : 'over');
    field('Segment', `${item.number + 1} of ${entry.pool.segments.length}, ${item.stands}, at ${bytesText(item.offset)}${item.mapped ? ', mapped' : ''}`);
    field('Buffers', bufferText(entry.buffers, item.buffers));
    const oldest = entry.buffers.reduce((most, each) => Math.max(most, each.age), 0);
    if (entry.buffers.length) field('Oldest', spanText(oldest));
  }
  host.replaceChildren(el('h2', {}, entry ? entry.name : item.state, entry && entry.revision ? el('span', {class: 'quiet'}, `@${entry.revision}`) : null),
      el('p', {class: 'chip'}, el('span', {class: 'swatch', 'data-state': item.state, color: `var(--${item.state})`}),
          el('span', {}, `${item.state}: ${item.note || STATES[item.state]}`)), fields);
}

function bufferText(all, here) {
  if (all.length === 0) return 'none that the daemon handed out';
  const kinds = {};
  for (const each of all) kinds[each.kind] = (kinds[each.kind] || 0) + 1;
  return `${here.length} in this segment, ${all.length} in all: ${Object.entries(kinds).map(([kind, n]) => `${n} ${kind}`).join(', ')}`;
}

function hover(item, event) {
  const tip = $('tip');
  const changed = shown.hovered !== item;
  shown.hovered = item;
  tip.hidden = !item;
  if (item) {
    if (changed) {
      const {entry} = item;
      const lines = [`${item.state}, ${bytesText(item.bytes)}`];
      if (entry && entry.kind === 'region') {
        lines.push(`layout ${shortKey(entry.layout)}, generation ${entry.region.generation}`);
        lines.push(entry.holders.length ? entry.holders.slice(0, 3).map((each) => each.name).join(', ') + (entry.holders.length > 3 ? ` and ${entry.holders.length - 3} more` : '') : 'nobody holds it');
      } else if (entry) {
        lines.push(`pool ${entry.pool.pool_id}, ${plural(item.buffers.length, 'buffer', 'buffers')} in this segment`);
      } else {
        lines[0] = bytesText(item.bytes);
        lines.push(item.note || STATES[item.state]);
      }
      if (entry && entry.left !== undefined) lines.push(`${spanText(entry.left)} left`);
      const name = entry ? entry.name + (entry.revision ? `@${entry.revision}` : '') : item.state;
      tip.replaceChildren(el('b', {}, name), ...lines.flatMap((line) => [el('br'), line]));
    }
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, window.innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 12 : event.clientY + 18}px`;
  }
  if (changed) requestAnimationFrame(drawTapes);
}

// --- From map to map.

function remember(map) {
  for (const device of map.devices) {
    for (const arena of device.arenas) {
      let points = shown.history.get(arena.key) || [];
      points.push({time: performance.now(), allocated: arena.ledger.allocated, reserved: arena.ledger.reserved,
        fragmentation: arena.ledger.fragmentation_ratio});
      // An old past in half the detail.
      if (points.length > MOST_POINTS) points = points.filter((point, i) => i % 2 === 0 || i > MOST_POINTS / 2);
      shown.history.set(arena.key, points);
    }
  }
}

function show(json) {
  const begun = performance.now();
  const map = readMap(json);
  if (shown.map && shown.map.boot !== map.boot) {
    shown.history.clear();
    shown.selected = null;
    shown.opened = performance.now();
  }
  if (shown.hovered) shown.hovered = map.items.get(shown.hovered.id) || null;
  shown.map = map;
  remember(map);
  renderFacts();
  renderLegend();
  renderDevices();
  renderList();
  renderDetail();
  drawTapes();
  performance.clearMeasures('show');
  performance.measure('show', {start: begun, end: performance.now()});
}

function say(state, text) {
  const status = $('status');
  if (status.dataset.state === state && $('status-text').textContent === text) return;
  status.dataset.state = state;
  $('status-text').textContent = text;
}

let timer = 0;
let reached = performance.now();
let asking = false;
async function poll() {
  clearTimeout(timer);
  if (asking || shown.paused || document.hidden) return;
  asking = true;
  const begun = performance.now();
  try {
    const response = await fetch('map.json', {cache: 'no-store', signal: AbortSignal.timeout(10000)});
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const json = await response.json();
    reached = performance.now();
    if (!shown.paused) {
      show(json);
      say('live', 'Live');
    }
  } catch (error) {
    say('lost', `Not reached for ${spanText((performance.now() - reached) / 1000)}`);
  }
  asking = false;
  // A map that costs much is asked for less often.
  if (!shown.paused) timer = setTimeout(poll, Math.max(POLL_MS, 10 * (performance.now() - begun)));
}

function setPaused(paused) {
  shown.paused = paused;
  $('pause').textContent = paused ? 'Resume' : 'Pause';
  $('pause').setAttribute('aria-pressed', paused);
  if (paused) say('paused', 'Paused'); else poll();
}

function start() {
  readPaint();
  renderColumns();
  renderDetail();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readPaint(); drawTapes(); });
  new ResizeObserver(() => requestAnimationFrame(drawTapes)).observe($('devices'));
  $('list').addEventListener('scroll', () => requestAnimationFrame(renderRows));
  $('list').addEventListener('keydown', onListKey);
  $('list').addEventListener('focus', () => { if (!selectedItem() && shown.entries.length) select(firstItem(shown.entries[0]), 'list', true); });
  $('filter').addEventListener('input', () => {
    shown.filter = $('filter').value.trim().toLowerCase();
    if (!shown.map) return;
    renderList();
    drawTapes();
    $('announce').textContent = plural(shown.entries.length, 'match', 'matches');
  });
  document.addEventListener('keydown', (event) => {
    if (event.key === '/' && document.activeElement !== $('filter')) {
      event.preventDefault();
      $('filter').focus();
    } else if (event.key === 'Escape') {
      if ($('filter').value) {
        $('filter').value = '';
        $('filter').dispatchEvent(new Event('input'));
      } else if (shown.map) {
        shown.selected = null;
        renderRows();
        renderDetail();
        drawTapes();
      }
    }
  });
  const embedded = $('snapshot').textContent.trim();
  if (embedded) {
    shown.snapshot = true;
    $('pause').hidden = true;
    const json = JSON.parse(embedded);
    show(json);
    say('snapshot', `As of ${shown.map.time.toLocaleString()}`);
    return;
  }
  $('pause').addEventListener('click', () => setPaused(!shown.paused));
  document.addEventListener('visibilitychange', poll);
  poll();
}

start();
})();
