"""The hierarchical measures by the letter of their definitions: every path, every pairing, every
choice, on tiny hierarchies.

Lengths are fractions, so that equal distances are equal.
"""

import itertools
from collections import defaultdict
from fractions import Fraction
from math import isclose

import networkx as nx
from hypothesis import strategies as st

ROOT, DUMMY = "virtual root", "dummy"


@st.composite
def hierarchies(draw, most=12, tree=False, weighted=False):
    """Edges (parent, child), lengths and classes; some classes may have no edge."""
    names = draw(st.permutations([f"c{i}" for i in range(draw(st.integers(1, most)))]))
    edges = []
    for i in range(1, len(names)):
        parents = draw(st.lists(st.sampled_from(names[:i]), max_size=1 if tree else 3, unique=True))
        edges += [(parent, names[i]) for parent in parents]
    lengths = [draw(st.sampled_from([0.1, 0.2, 0.3, 1.0])) if weighted else 1 for _ in edges]
    return edges, lengths, sorted(names)


def class_sets(names, most=3):
    return st.sets(st.sampled_from(names), max_size=most)


class Reference:
    def __init__(self, edges, lengths=None, nodes=()):
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(nodes)
        exact = [Fraction(str(length)) for length in lengths or [1] * len(edges)]
        self.graph.add_weighted_edges_from(
            (p, c, w) for (p, c), w in zip(edges, exact, strict=True)
        )
        roots = [v for v, degree in self.graph.in_degree if degree == 0]
        self.graph.add_weighted_edges_from((ROOT, v, Fraction(1)) for v in roots)
        upward = self.graph.reverse()
        self.up = {v: nx.single_source_dijkstra_path_length(upward, v) for v in self.graph}

    # ---- distances

    def distance(self, a, b):
        return min(d + self.up[b][v] for v, d in self.up[a].items() if v in self.up[b])

    def paths(self, low, high):
        return [
            tuple(reversed(path))
            for path in nx.all_shortest_paths(self.graph, high, low, weight="weight")
        ]

    # ---- sets

    def extended(self, classes, count_root=False, height=None):
        known = {
            v
            for c in classes
            for v, d in self.up[c].items()
            if height is None or d <= Fraction(str(height))
        }
        return known if count_root else known - {ROOT}

    def below(self, classes):
        return set(classes).union(*(nx.descendants(self.graph, c) for c in classes))

    def h_loss(self, true, pred, count_root=False, height=None):
        a, b = (self.extended(side, count_root, height) for side in (true, pred))

        def kept(own, other):
            for v in own:
                parents = {p for p in self.graph.predecessors(v) if p != ROOT or count_root}
                if v in other or not parents or parents & other:
                    yield v

        return len(set(kept(a, b)) ^ set(kept(b, a)))

    # ---- pairs

    def allowed(self, true, pred, limit, far):
        found, limit = {}, Fraction(str(limit))
        for y, p in itertools.product(sorted(true), sorted(pred)):
            length = self.distance(y, p)
            if far != "forbid" or length <= limit:
                found[y, p] = min(length, limit) if far == "clip" else length
        return found

    def cheapest(self, true, pred, limit, far, one_to_one):
        """Least cost over all sets of pairs, where each class that is in none costs the limit."""
        pairs = self.allowed(true, pred, limit, far)
        best = limit * (len(true) + len(pred))
        for size in range(len(pairs) + 1):
            for chosen in itertools.combinations(pairs, size):
                left, right = [y for y, _ in chosen], [p for _, p in chosen]
                if one_to_one and (len(set(left)) < size or len(set(right)) < size):
                    continue
                alone = len(set(true) - set(left)) + len(set(pred) - set(right))
                best = min(best, sum(pairs[pair] for pair in chosen) + limit * alone)
        return best

    # ---- lowest common ancestors

    def lowest(self, classes):
        return {c for c in classes if not any(c != d and c in self.up[d] for d in classes)}

    def meetings(self, a, b, limit=None):
        length = self.distance(a, b)
        if limit is not None and length > limit:
            return {DUMMY}
        return {
            v for v in self.up[a] if v in self.up[b] and self.up[a][v] + self.up[b][v] == length
        }

    def nearest(self, c, others, limit=None):
        lengths = {
            o: self.distance(c, o) if limit is None else min(limit, self.distance(c, o))
            for o in others
        }
        return {o for o in others if lengths[o] == min(lengths.values())}

    def ways(self, low, high, limit=None):
        if high != DUMMY:
            return self.paths(low, high)
        near = {v for v, d in self.up[low].items() if d < limit / 2}
        ends = [v for v in self.up[low] if v not in near or v == ROOT]
        return [
            (*(v for v in path if v in near), DUMMY)
            for end in ends
            for path in self.paths(low, end)
        ]

    def choices(self, true, pred, limit=None):
        """For each class the nodes where it meets its nearest classes, and these."""
        true, pred = self.lowest(true), self.lowest(pred)
        found = defaultdict(lambda: defaultdict(set))
        for side, these, those in ((0, true, pred), (1, pred, true)):
            for c in these:
                for o in self.nearest(c, those, limit) if those else ():
                    for a in self.meetings(c, o, limit):
                        found[side, c][a].add(o)
        return found

    def extended_graphs(self, true, pred, limit=None):
        if not true or not pred:
            return self.lowest(true), self.lowest(pred)
        graphs = set(), set()
        for (side, c), met in self.choices(true, pred, limit).items():
            for a, others in met.items():
                graphs[side].update(*self.ways(c, a, limit))
                for o in others:
                    graphs[1 - side].update(*self.ways(o, a, limit))
        return graphs

    def minimal_graphs(self, true, pred, limit=None, most=3000):
        """Sizes (intersection, true, predicted) of all solutions of Problem 2, or None where there
        are too many graphs to try.

        Every union of shortest paths from classes to meeting nodes is tried in which each class
        reaches one of its own and each that is kept is reached; as few are kept as will do.
        """
        if not true or not pred:
            return {(0, len(self.lowest(true)), len(self.lowest(pred)))}
        choices = self.choices(true, pred, limit)
        edges = set(), set()
        for (side, c), met in choices.items():
            for a, others in met.items():
                for place, low in ((side, c), *((1 - side, o) for o in others)):
                    edges[place].update(
                        edge for way in self.ways(low, a, limit) for edge in itertools.pairwise(way)
                    )
        nodes = sorted({a for met in choices.values() for a in met}, key=str)
        for size in range(1, len(nodes) + 1):
            covers = [
                set(c)
                for c in itertools.combinations(nodes, size)
                if all(set(c) & set(met) for met in choices.values())
            ]
            if covers:
                break
        sizes = set()
        for cover in covers:
            graphs = [], []
            for side, classes in enumerate((self.lowest(true), self.lowest(pred))):
                ways = {}
                for c, a in itertools.product(classes, cover):
                    if a == DUMMY or a in self.up[c]:
                        found = (
                            way
                            for way in self.ways(c, a, limit)
                            if edges[side].issuperset(itertools.pairwise(way))
                        )
                        ways[c, a] = {frozenset(way) for way in found}
                unions = {frozenset()}
                for way in set().union(*ways.values()):
                    unions |= {union | way for union in unions}
                    if len(unions) > most:
                        return None
                for union in unions:
                    joined = all(
                        any(
                            way <= union
                            for a in cover & set(choices[side, c])
                            for way in ways[c, a]
                        )
                        for c in classes
                    )
                    if joined and cover <= union:
                        graphs[side].append(union)
            sizes |= {(len(t & p), len(t), len(p)) for t in graphs[0] for p in graphs[1]}
        best = max(both / (t + p) for both, t, p in sizes)
        sizes = {s for s in sizes if isclose(s[0] / (s[1] + s[2]), best)}
        return {s for s in sizes if s[1] + s[2] == min(t + p for _, t, p in sizes)}
