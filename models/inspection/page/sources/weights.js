// The attention of one text: tokens numbered over all parts, edges sorted by target, weights decoded on demand. If it is
// joined, its tokens are the words.

const ALL = "all";
const LEVELS = 512;

function decodeNumbers(text, Kind) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  return new Kind(bytes.buffer);
}

class Attention {
  constructor(packed, { joined = false } = {}) {
    this.joined = joined;
    this.title = packed.title;
    this.prediction = packed.prediction;
    this.branches = packed.branches;
    this.kept = packed.kept;
    this.maps = packed.maps;
    this.packedEdges = packed.edges;
    this.tokens = [];
    this.parts = new Map();
    this.pieces = new Map(); // part -> its tokens before they are joined, numbered over all parts
    this.wordOf = []; // of those
    this.words = {};
    for (const [name, tokens] of Object.entries(packed.tokens)) {
      const words = packed.words[name];
      const shown = (joined && packed.word_texts[name]) || tokens;
      const begins = shown === tokens ? tokens.map(() => true) : words.map((word, place) => word !== words[place - 1]);
      if (words) this.words[name] = words.filter((_, place) => begins[place]);
      this.pieces.set(name, { first: this.wordOf.length, count: tokens.length });
      this.parts.set(name, { first: this.tokens.length, count: shown.length });
      for (const text of shown) this.tokens.push(text);
      let word = this.parts.get(name).first - 1;
      for (const begin of begins) this.wordOf.push((word += begin));
    }
    this.tags = tagsOfTokens(packed.prediction, this.words);
    this.parses = packed.parses;
    this.decoded = new Map();
    this.selections = new Map();
  }

  partOf(token) {
    return [...this.parts].find(([, part]) => token < part.first + part.count)[0];
  }

  /** The position of a token in its part. */
  position(token) {
    return token - this.parts.get(this.partOf(token)).first;
  }

  /** The dependency of an edge: `nsubj>` to the head, `nsubj<` from it; else an empty string. */
  deprel(source, target) {
    const part = this.partOf(target);
    const parse = this.parses[part];
    if (!parse || this.partOf(source) !== part) return "";
    const wordOf = (token) => this.words[part]?.[this.position(token)] ?? this.position(token);
    const [from, to] = [wordOf(source), wordOf(target)];
    if (parse.heads[from] === to) return `${parse.deprels[from]}>`;
    return parse.heads[to] === from ? `${parse.deprels[to]}<` : "";
  }

  isParsed() {
    return Object.keys(this.parses).length > 0;
  }

  layers() {
    return unique(this.maps.map((map) => map.layer));
  }

  relations(layer) {
    return unique(this.maps.filter((map) => map.layer === layer).map((map) => map.relation));
  }

  heads(layer, relation) {
    return unique(this.selectMaps(layer, ALL, relation).map((map) => map.head)).sort((a, b) => a - b);
  }

  selectMaps(layer, head, relation) {
    return this.maps.filter(
      (map) =>
        map.layer === layer && (head === ALL || map.head === head) && (relation === ALL || map.relation === relation),
    );
  }

  /** Edges of a head, grouped by relation; for several heads, the mean over the heads of each target. */
  select(layer, head, relation) {
    const key = JSON.stringify([layer, head, relation]);
    if (!this.selections.has(key)) {
      if (this.selections.size > 12) this.selections.clear();
      this.selections.set(key, this.selection(this.selectMaps(layer, head, relation)));
    }
    return this.selections.get(key);
  }

  selection(maps) {
    const heads = (part) => unique(maps.filter((map) => map.target_part === part).map((map) => map.head)).length;
    const groups = unique(maps.map((map) => map.relation)).map((relation) => {
      const members = maps.filter((map) => map.relation === relation);
      const edges = members.map((map) => this.edges(map, 1 / heads(map.target_part)));
      return { relation, ...(edges.length === 1 ? edges[0] : sum(edges, this.tokens.length)) };
    });
    return new Selection(groups, maps, this);
  }

  /** The edges of a map, their weights times `share`, with tokens numbered over all parts. */
  edges(map, share) {
    const { pointers, sources } = this.structure(map.edges);
    const target = this.pieces.get(map.target_part);
    const source = this.pieces.get(map.source_part);
    const allPointers = new Uint32Array(this.wordOf.length + 1);
    allPointers.set(pointers, target.first);
    allPointers.fill(pointers[target.count], target.first + target.count);
    const weights = new Float32Array(decodeNumbers(map.weights, Uint16Array)).map((level) => level * map.unit * share);
    const edges = { pointers: allPointers, sources: source.first ? sources.map((number) => number + source.first) : sources, weights };
    return this.joined ? joinEdges(edges, this.wordOf, this.tokens.length) : edges;
  }

  structure(index) {
    if (!this.decoded.has(index)) {
      const packed = this.packedEdges[index];
      const pointers = decodeNumbers(packed.pointers, Uint32Array);
      const sources = packed.sources
        ? new Uint32Array(decodeNumbers(packed.sources, Uint16Array))
        : contiguousSources(pointers, decodeNumbers(packed.first, Uint32Array));
      this.decoded.set(index, { pointers, sources });
    }
    return this.decoded.get(index);
  }
}

/** The tags of a tagger except O, each for the first token of its word. */
function tagsOfTokens({ tags }, words) {
  if (!tags) return [];
  const ids = Object.values(words).flat();
  return ids.map((word, token) => (word !== ids[token - 1] && tags[word - 1] !== "O" ? tags[word - 1] : undefined));
}

function unique(values) {
  return [...new Set(values)];
}

function contiguousSources(pointers, first) {
  const sources = new Uint32Array(pointers[pointers.length - 1]);
  for (let target = 0; target < first.length; target += 1) {
    for (let edge = pointers[target]; edge < pointers[target + 1]; edge += 1) {
      sources[edge] = first[target] + edge - pointers[target];
    }
  }
  return sources;
}

/** The edges between words: a weight is the sum over the tokens of its source, and the mean over those of its target. */
function joinEdges({ pointers, sources, weights }, wordOf, size) {
  const joined = { pointers: new Uint32Array(size + 1), sources: new Uint32Array(sources.length), weights: new Float32Array(sources.length) };
  const slot = new Uint32Array(size); // index of this target's edge from a source, plus one
  let [end, token] = [0, 0];
  for (let word = 0; word < size; word += 1) {
    const [begin, first] = [end, token];
    while (wordOf[token] === word) token += 1;
    for (let edge = pointers[first]; edge < pointers[token]; edge += 1) {
      const source = wordOf[sources[edge]];
      if (slot[source] <= begin) {
        joined.sources[end] = source;
        end += 1;
        slot[source] = end;
      }
      joined.weights[slot[source] - 1] += weights[edge] / (token - first);
    }
    joined.pointers[word + 1] = end;
  }
  return { pointers: joined.pointers, sources: joined.sources.slice(0, end), weights: joined.weights.slice(0, end) };
}

/** Merge the edges of several maps; weights of the same edge add up. */
function sum(maps, size) {
  const most = maps.reduce((total, map) => total + map.sources.length, 0);
  const [pointers, sources, weights] = [new Uint32Array(size + 1), new Uint32Array(most), new Float32Array(most)];
  const slot = new Uint32Array(size); // index of this target's edge from a source, plus one
  let end = 0;
  for (let target = 0; target < size; target += 1) {
    const begin = end;
    for (const map of maps) {
      for (let edge = map.pointers[target]; edge < map.pointers[target + 1]; edge += 1) {
        const source = map.sources[edge];
        if (slot[source] <= begin) {
          sources[end] = source;
          end += 1;
          slot[source] = end;
        }
        weights[slot[source] - 1] += map.weights[edge];
      }
    }
    pointers[target + 1] = end;
  }
  return { pointers, sources: sources.slice(0, end), weights: weights.slice(0, end) };
}

/** Edges to show, grouped by relation. */
class Selection {
  constructor(groups, maps, attention) {
    this.groups = groups;
    this.heads = unique(maps.map((map) => map.head)).length;
    this.largest = Math.max(0, ...groups.map(({ weights }) => weights.reduce((most, w) => Math.max(most, w), 0)));
    this.targets = [...attention.parts].filter(([name]) => maps.some((map) => map.target_part === name));
    this.sources = [...attention.parts].filter(([name]) => maps.some((map) => map.source_part === name));
    this.total = groups.reduce((total, { weights }) => total + weights.length, 0);
    this.histogram = new Uint32Array(LEVELS + 1);
    for (const group of groups) this.count(group);
  }

  /** Count edges by level, except those of a token with itself. */
  count({ pointers, sources, weights }) {
    for (let target = 0; target + 1 < pointers.length; target += 1) {
      for (let edge = pointers[target]; edge < pointers[target + 1]; edge += 1) {
        if (sources[edge] !== target) this.histogram[this.level(weights[edge])] += 1;
      }
    }
  }

  /** The level of a weight on a square-root scale, since most weights are small. */
  level(weight) {
    return this.largest ? Math.floor(LEVELS * Math.sqrt(Math.min(1, weight / this.largest))) : 0;
  }

  /** The lowest level with at most `count` edges on it and above. */
  levelOf(count) {
    let level = LEVELS;
    for (let above = this.histogram[level]; level > 0 && above + this.histogram[level - 1] <= count; ) {
      level -= 1;
      above += this.histogram[level];
    }
    return level;
  }

  /** A threshold that about `count` edges reach. */
  thresholdFor(count) {
    return this.largest * (this.levelOf(count) / LEVELS) ** 2;
  }

  incoming(target) {
    const edges = [];
    for (const { relation, pointers, sources, weights } of this.groups) {
      for (let edge = pointers[target]; edge < pointers[target + 1]; edge += 1) {
        edges.push({ source: sources[edge], target, weight: weights[edge], relation });
      }
    }
    return edges.sort((a, b) => b.weight - a.weight || a.source - b.source);
  }

  /** The edges into several tokens, those from the same source along a relation summed; strongest first. */
  into(targets) {
    const sums = new Map();
    for (const { source, weight, relation } of targets.flatMap((target) => this.incoming(target))) {
      const key = `${source} ${relation}`;
      if (!sums.has(key)) sums.set(key, { source, target: targets[0], weight: 0, relation });
      sums.get(key).weight += weight;
    }
    return [...sums.values()].sort((a, b) => b.weight - a.weight || a.source - b.source);
  }

  /** Whether no token has an edge from another one. */
  isAlone() {
    return this.total > 0 && !this.histogram.some((count) => count > 0);
  }

  between(source, target) {
    return this.incoming(target).filter((edge) => edge.source === source);
  }

  /** Edges that reach the threshold, at most about `most` of the strongest, and their total count. */
  strongest(threshold, most) {
    const edges = [];
    let count = 0;
    const level = this.levelOf(most);
    for (const { relation, pointers, sources, weights } of this.groups) {
      for (let target = 0; target + 1 < pointers.length; target += 1) {
        for (let edge = pointers[target]; edge < pointers[target + 1]; edge += 1) {
          if (weights[edge] < threshold) continue;
          count += 1;
          if (edges.length < most + pointers.length && this.level(weights[edge]) >= level) {
            edges.push({ source: sources[edge], target, weight: weights[edge], relation });
          }
        }
      }
    }
    return { edges, count };
  }
}
