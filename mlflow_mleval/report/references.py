"""What each method of a comparison is, in a line, and where it comes from; only those that a comparison used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.folds.five_by_two import FiveByTwoPairs
from mlflow_mleval.measures.registry import HUELLERMEIER, KOSMOPOULOS, MADJAROV, MEASURES


@dataclass(frozen=True)
class Reference:
    """A publication: how it is cited in running text, and its BibTeX entry."""

    cite: str
    bibtex: str


def _entry(cite: str, kind: str, key: str, **fields: str) -> Reference:
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return Reference(cite, f"@{kind}{{{key},\n{lines}}}")


REFERENCES = {
    "brans": _entry("Brans & Vincke 1985", "article", "brans1985", author="Brans, Jean-Pierre and Vincke, Philippe",
                    title="A Preference Ranking Organisation Method: The {PROMETHEE} Method for Multiple Criteria "
                          "Decision-Making",
                    journal="Management Science", volume="31", number="6", pages="647--656", year="1985"),
    "eftimov": _entry("Eftimov & Kocev 2019", "inproceedings", "eftimov2019", author="Eftimov, Tome and Kocev, Dragi",
                      title="Performance Measures Fusion for Experimental Comparison of Methods for Multi-label Classification",
                      booktitle="Proceedings of the {AAAI} 2019 Spring Symposium on Combining Machine Learning with Knowledge "
                                "Engineering (AAAI-MAKE 2019)", series="CEUR Workshop Proceedings", volume="2350", year="2019"),
    "gaia": _entry("Mareschal & Brans 1988", "article", "mareschal1988", author="Mareschal, Bertrand and Brans, Jean-Pierre",
                   title="Geometrical representations for {MCDA}", journal="European Journal of Operational Research",
                   volume="34", number="1", pages="69--77", year="1988"),
    "friedman": _entry("Friedman 1937", "article", "friedman1937", author="Friedman, Milton",
                       title="The Use of Ranks to Avoid the Assumption of Normality Implicit in the Analysis of Variance",
                       journal="Journal of the American Statistical Association", volume="32", number="200", pages="675--701",
                       year="1937"),
    "iman": _entry("Iman & Davenport 1980", "article", "iman1980", author="Iman, Ronald L. and Davenport, James M.",
                   title="Approximations of the Critical Region of the {Friedman} Statistic",
                   journal="Communications in Statistics -- Theory and Methods", volume="9", number="6", pages="571--595",
                   year="1980"),
    "nemenyi": _entry("Nemenyi 1963", "phdthesis", "nemenyi1963", author="Nemenyi, Peter Bjorn",
                      title="Distribution-free Multiple Comparisons", school="Princeton University", year="1963"),
    "dunn": _entry("Dunn 1961", "article", "dunn1961", author="Dunn, Olive Jean", title="Multiple Comparisons among Means",
                   journal="Journal of the American Statistical Association", volume="56", number="293", pages="52--64",
                   year="1961"),
    "demsar": _entry("Demšar 2006", "article", "demsar2006", author="Dem{\\v{s}}ar, Janez",
                     title="Statistical Comparisons of Classifiers over Multiple Data Sets",
                     journal="Journal of Machine Learning Research", volume="7", pages="1--30", year="2006"),
    "wilcoxon": _entry("Wilcoxon 1945", "article", "wilcoxon1945", author="Wilcoxon, Frank",
                       title="Individual Comparisons by Ranking Methods", journal="Biometrics Bulletin", volume="1",
                       number="6", pages="80--83", year="1945"),
    "pratt": _entry("Pratt 1959", "article", "pratt1959", author="Pratt, John W.",
                    title="Remarks on Zeros and Ties in the {Wilcoxon} Signed Rank Procedures",
                    journal="Journal of the American Statistical Association", volume="54", number="287", pages="655--667",
                    year="1959"),
    "benavoli": _entry("Benavoli et al. 2016", "article", "benavoli2016",
                       author="Benavoli, Alessio and Corani, Giorgio and Mangili, Francesca",
                       title="Should We Really Use Post-Hoc Tests Based on Mean-Ranks?",
                       journal="Journal of Machine Learning Research", volume="17", number="5", pages="1--10", year="2016"),
    "holm": _entry("Holm 1979", "article", "holm1979", author="Holm, Sture",
                   title="A Simple Sequentially Rejective Multiple Test Procedure", journal="Scandinavian Journal of Statistics",
                   volume="6", number="2", pages="65--70", year="1979"),
    "mcm": _entry("Ismail-Fawaz et al. 2023", "misc", "ismailfawaz2023",
                  author="Ismail-Fawaz, Ali and Dempster, Angus and Tan, Chang Wei and Herrmann, Matthieu and Miller, Lynn and "
                         "Schmidt, Daniel F. and Berretti, Stefano and Weber, Jonathan and Devanne, Maxime and "
                         "Forestier, Germain and Webb, Geoffrey I.",
                  title="An Approach to Multiple Comparison Benchmark Evaluations that is Stable Under Manipulation of the "
                        "Comparate Set", eprint="2305.11921", archiveprefix="arXiv", year="2023"),
    "piepho": _entry("Piepho 2004", "article", "piepho2004", author="Piepho, Hans-Peter",
                     title="An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons",
                     journal="Journal of Computational and Graphical Statistics", volume="13", number="2", pages="456--466",
                     year="2004"),
    "kendall": _entry("Kendall 1938", "article", "kendall1938", author="Kendall, Maurice G.",
                      title="A New Measure of Rank Correlation", journal="Biometrika", volume="30", number="1/2",
                      pages="81--93", year="1938"),
    "kuhn": _entry("Kuhn 2008", "article", "kuhn2008", author="Kuhn, Max",
                   title="Building Predictive Models in {R} Using the caret Package", journal="Journal of Statistical Software",
                   volume="28", number="5", pages="1--26", year="2008"),
    "smaa": _entry("Lahdelma & Salminen 2001", "article", "lahdelma2001", author="Lahdelma, Risto and Salminen, Pekka",
                   title="{SMAA-2}: Stochastic Multicriteria Acceptability Analysis for Group Decision Making",
                   journal="Operations Research", volume="49", number="3", pages="444--454", year="2001"),
    "skillings": _entry("Skillings & Mack 1981", "article", "skillings1981", author="Skillings, John H. and Mack, Gregory A.",
                        title="On the Use of a {Friedman}-Type Statistic in Balanced and Unbalanced Block Designs",
                        journal="Technometrics", volume="23", number="2", pages="171--177", year="1981"),
    "hotelling": _entry("Hotelling 1931", "article", "hotelling1931", author="Hotelling, Harold",
                        title="The Generalization of {Student's} Ratio", journal="The Annals of Mathematical Statistics",
                        volume="2", number="3", pages="360--378", year="1931"),
    "yildiz": _entry("Yıldız & Alpaydın 2014", "misc", "yildiz2014", author="Y{\\i}ld{\\i}z, Olcay Taner and Alpayd{\\i}n, Ethem",
                     title="Multivariate Comparison of Classification Algorithms", eprint="1409.4566", archiveprefix="arXiv",
                     year="2014"),
    "alpaydin": _entry("Alpaydın 1999", "article", "alpaydin1999", author="Alpayd{\\i}n, Ethem",
                       title="Combined 5 {\\texttimes} 2 cv {F} Test for Comparing Supervised Classification Learning Algorithms",
                       journal="Neural Computation", volume="11", number="8", pages="1885--1892", year="1999"),
    "nadeau": _entry("Nadeau & Bengio 2003", "article", "nadeau2003", author="Nadeau, Claude and Bengio, Yoshua",
                     title="Inference for the Generalization Error", journal="Machine Learning", volume="52", number="3",
                     pages="239--281", year="2003"),
    "wilks": _entry("Wilks 1932", "article", "wilks1932", author="Wilks, Samuel S.",
                    title="Certain Generalizations in the Analysis of Variance", journal="Biometrika", volume="24",
                    number="3/4", pages="471--494", year="1932"),
    "mardia": _entry("Mardia 1970", "article", "mardia1970", author="Mardia, Kanti V.",
                     title="Measures of Multivariate Skewness and Kurtosis with Applications", journal="Biometrika",
                     volume="57", number="3", pages="519--530", year="1970"),
    "tutorial": _entry("Benavoli et al. 2017", "article", "benavoli2017",
                       author="Benavoli, Alessio and Corani, Giorgio and Dem{\\v{s}}ar, Janez and Zaffalon, Marco",
                       title="Time for a Change: a Tutorial for Comparing Multiple Classifiers Through {Bayesian} Analysis",
                       journal="Journal of Machine Learning Research", volume="18", number="77", pages="1--36", year="2017"),
    "schuirmann": _entry("Schuirmann 1987", "article", "schuirmann1987", author="Schuirmann, Donald J.",
                         title="A Comparison of the Two One-Sided Tests Procedure and the Power Approach for Assessing the "
                               "Equivalence of Average Bioavailability",
                         journal="Journal of Pharmacokinetics and Biopharmaceutics", volume="15", number="6",
                         pages="657--680", year="1987"),
    "mogstad": _entry("Mogstad et al. 2024", "article", "mogstad2024",
                      author="Mogstad, Magne and Romano, Joseph P. and Shaikh, Azeem M. and Wilhelm, Daniel",
                      title="Inference for Ranks with Applications to Mobility across Neighbourhoods and Academic Achievement "
                            "across Countries", journal="The Review of Economic Studies", volume="91", number="1",
                      pages="476--518", year="2024"),
    "hothorn": _entry("Hothorn et al. 2008", "article", "hothorn2008",
                      author="Hothorn, Torsten and Bretz, Frank and Westfall, Peter",
                      title="Simultaneous Inference in General Parametric Models", journal="Biometrical Journal", volume="50",
                      number="3", pages="346--363", year="2008"),
    "westfall": _entry("Westfall & Young 1993", "book", "westfall1993", author="Westfall, Peter H. and Young, S. Stanley",
                       title="Resampling-Based Multiple Testing: Examples and Methods for p-Value Adjustment",
                       publisher="Wiley", year="1993"),
    MADJAROV: _entry("Madjarov et al. 2012", "article", "madjarov2012",
                     author="Madjarov, Gjorgji and Kocev, Dragi and Gjorgjevikj, Dejan and D{\\v{z}}eroski, Sa{\\v{s}}o",
                     title="An Extensive Experimental Comparison of Methods for Multi-label Learning",
                     journal="Pattern Recognition", volume="45", number="9", pages="3084--3104", year="2012"),
    HUELLERMEIER: _entry("Hüllermeier et al. 2022", "article", "huellermeier2022",
                         author="H{\\\"u}llermeier, Eyke and Wever, Marcel and Loza Menc{\\'i}a, Eneldo and F{\\\"u}rnkranz, "
                                "Johannes and Rapp, Michael",
                         title="A Flexible Class of Dependence-aware Multi-label Loss Functions", journal="Machine Learning",
                         volume="111", pages="713--737", year="2022"),
    KOSMOPOULOS: _entry("Kosmopoulos et al. 2015", "article", "kosmopoulos2015",
                        author="Kosmopoulos, Aris and Partalas, Ioannis and Gaussier, Eric and Paliouras, Georgios and "
                               "Androutsopoulos, Ion",
                        title="Evaluation Measures for Hierarchical Classification: A Unified View and Novel Approaches",
                        journal="Data Mining and Knowledge Discovery", volume="29", number="3", pages="820--865", year="2015"),
}  # fmt: skip

#: What a method does, in a line, and its sources. The order is that of the report.
_METHODS = {
    "PROMETHEE II": ("φ⁺ is how far a method is preferred to the others on average, φ⁻ how far they are preferred to it, over "
                     "the measures by weight; it ranks by φ = φ⁺ − φ⁻, on every dataset by itself", ("brans", "eftimov")),
    "PROMETHEE I": ("keeps only what φ⁺ and φ⁻ agree on; the rest is incomparable", ("brans",)),
    "entropy weights": ("a measure weighs the more, the more unevenly it spreads the methods of a dataset; they sum to 1",
                        ("eftimov",)),
    "GAIA plane": ("first two principal components of the net flows by single measures", ("gaia",)),
    "Friedman": ("tests whether all methods have the same mean rank over the datasets", ("friedman", "demsar")),
    "Iman–Davenport": ("F version of the same, less conservative", ("iman", "demsar")),
    "Nemenyi": ("separates two methods whose mean ranks differ by the critical difference; holds α over all pairs",
                ("nemenyi", "demsar")),
    "Bonferroni–Dunn": ("the same for pairs with one control only", ("dunn", "demsar")),
    "Wilcoxon's signed ranks": ("tests a pair of methods by itself, exactly with ties and zeros",
                                ("wilcoxon", "pratt", "benavoli")),
    "Holm": ("corrects p-values for the number of pairs; the chance of any false separation is at most α", ("holm",)),
    "Skillings–Mack": ("Friedman's test for tables with gaps", ("skillings",)),
    "groups and letters": ("maximal sets of methods of which no pair is separated", ("piepho",)),
    "pairwise matrix": ("mean difference, wins, ties and losses, and p-value of each pair", ("mcm",)),
    "Kendall's τ": ("agreement of two rankings, from −1 to 1, corrected for ties", ("kendall",)),
    "redundancy filter": ("drops one of each pair of measures whose correlation, averaged over datasets, exceeds the threshold",
                          ("eftimov", "kuhn")),
    "rank acceptability": ("how often a method takes a rank under weights drawn uniformly from all weights", ("smaa",)),
    "Hotelling's T²": ("tests a pair on several measures at once over the folds of a dataset", ("hotelling", "yildiz")),
    "combined 5x2 cv test": ("the same for five repetitions of two folds", ("alpaydin", "yildiz")),
    "correction for shared training data": ("widens the variance over folds by n_test/n_train, because training parts overlap",
                                            ("nadeau",)),
    "MANOVA": ("tests all methods together on several measures, and learns the combinations that tell them apart",
               ("wilks", "yildiz")),
    "Mardia": ("tests whether what is left of fold and method looks normal", ("mardia",)),
    "loss profiles": ("losses from the Hamming to the subset 0/1 loss: whose errors fall together loses least on the way",
                      (HUELLERMEIER,)),
    "tests along profiles": ("t tests over folds at every parameter, judged by the largest of them, then Holm over pairs",
                             ("nadeau", "hothorn", "holm")),
    "profiles over datasets": ("changes of sign, judged by the largest statistic over positions and pairs", ("westfall",)),
    "awareness over datasets": ("Wilcoxon's signed ranks on the area, slope and relative gain of profiles",
                                ("wilcoxon", "holm", HUELLERMEIER)),
    "Bayesian tests": ("how probable it is that one method is better by more than the limit, or neither", ("tutorial",)),
    "equivalence": ("two one-sided tests show that a difference is below the limit", ("schuirmann",)),
    "possible ranks": ("ranks of the mean that no test of all pairs together excludes", ("mogstad",)),
}  # fmt: skip


def methods_used(c: Comparison) -> Iterator[tuple[str, str, list[Reference]]]:
    """Name, line and sources of every method that the comparison used."""
    control = c.options["control"] is not None
    tested = c.friedman is not None
    several = len(c.study.measures) > 1
    folds, beyond, along = c.folds.values(), c.beyond, c.profiles
    five = [isinstance(f.tests, FiveByTwoPairs) for f in folds]
    by_fold = [part for parts in beyond.by_fold.values() for part in parts.values()] if beyond is not None else []
    used = {
        "entropy weights": several and c.options["weights"] == "entropy",
        "GAIA plane": c.plane is not None,
        "Kendall's τ": several,
        "Friedman": tested,
        "Iman–Davenport": tested,
        "Nemenyi": tested and not control,
        "Bonferroni–Dunn": tested and control,
        "Wilcoxon's signed ranks": c.pairwise is not None,
        "Holm": c.pairwise is not None and c.options["correction"] == "holm",
        "Skillings–Mack": c.skillings_mack is not None,
        "groups and letters": tested,
        "pairwise matrix": c.pairwise is not None,
        "redundancy filter": c.redundancy is not None,
        "rank acceptability": several and c.stability is not None,
        "Hotelling's T²": not all(five),
        "combined 5x2 cv test": any(five),
        "correction for shared training data": any(f.protocol.ratio is not None for f in folds),
        "MANOVA": any(f.manova is not None for f in folds),
        "Mardia": any(f.mardia is not None for f in folds),
        "loss profiles": along is not None,
        "tests along profiles": along is not None and along.ratios["pvalue"].notna().any(),
        "profiles over datasets": along is not None and along.across is not None,
        "awareness over datasets": along is not None and any(t is not None for t in along.awareness_tests.values()),
        "Bayesian tests": beyond is not None and (beyond.bayes is not None or bool(by_fold)),
        "equivalence": beyond is not None and (beyond.equivalence is not None or any(p.equivalence for p in by_fold)),
        "possible ranks": beyond is not None and beyond.ranks is not None,
    }
    for name, (line, keys) in _METHODS.items():
        if used.get(name, True):
            yield name, line, [REFERENCES[key] for key in keys]


def bibliography(c: Comparison) -> list[Reference]:
    """The sources of the methods and measures that were used, each once, by year."""
    found = {r.cite: r for _, _, sources in methods_used(c) for r in sources}
    for measure in c.study.measures:
        source = REFERENCES.get(MEASURES[measure].source) if measure in MEASURES else None
        if source is not None:
            found.setdefault(source.cite, source)
    return sorted(found.values(), key=lambda r: (r.cite[-4:], r.cite))
