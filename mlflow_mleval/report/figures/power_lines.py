"""Power against the number of datasets."""

from mlflow_mleval.analysis.power_curve import PowerCurve
from mlflow_mleval.report.svg import WIDTH, Scale, Svg


def power_lines(found: PowerCurve, title: str) -> Svg:
    """The curve with its band, the wanted power as a dashed line, and marks where the study is and
    where the power is reached.
    """
    c, bottom = found.curve, 210
    x, y = Scale(c["n"].min(), c["n"].max(), 46, WIDTH - 24), Scale(0, 1, bottom, 14)
    there = float(c["power"][c["n"] == found.n].max())
    how_many = f"{found.needed:,.0f}" if found.needed <= c["n"].max() else "more than are drawn"
    svg = Svg(
        title,
        f"Power with {found.n} datasets {there:.0%}; {found.target:.0%} takes {how_many}.",
        bottom + 44,
    )
    for share in (0, 0.2, 0.4, 0.6, 0.8, 1):
        svg.line(46, y(share), WIDTH - 24, y(share), "grid")
        svg.text(40, y(share) + 4, f"{share:.0%}", "muted small", "end")
    svg.axis(x, bottom, 14, label=lambda t: f"{t:,.0f}")
    svg.text(WIDTH / 2, bottom + 38, "datasets", "muted", "middle")
    across = [x(n) for n in c["n"]]
    edge = [
        *zip(across, map(y, c["high"]), strict=True),
        *zip(across[::-1], map(y, c["low"][::-1]), strict=True),
    ]
    svg.path(edge, "f0", fill_opacity=0.13)
    svg.line(46, y(found.target), WIDTH - 24, y(found.target), "arrow", stroke_dasharray="4 3")
    if found.more:
        svg.path([*zip(across, map(y, c["limit"]), strict=True)], "c0", stroke_dasharray="2 3")
    svg.path([*zip(across, map(y, c["power"]), strict=True)], "c0 thick")
    svg.dot(x(found.n), y(there), 5, "hollow", tip=f"{found.n} datasets, as now: {there:.0%}")
    if found.needed <= c["n"].max():
        svg.dot(
            x(found.needed),
            y(found.target),
            5,
            "faccent",
            tip=f"{found.needed:,.0f} datasets: {found.target:.0%}",
        )
    return svg
