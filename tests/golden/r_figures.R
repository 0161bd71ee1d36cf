# Figures of R for tests/test_r_figures.py. Base R only:
#
#     Rscript r_figures.R > r_figures.json
#
# Where R has the test as a function, that is called; where it has none (Hotelling, Mardia, 5x2 cv, the corrections for shared
# training data), the textbook formula is written out in matrices.

set.seed(20141)

# JSON --------------------------------------------------------------------------------------------------------------------------

json <- function(x) {
  if (is.list(x) && !is.null(names(x))) {
    parts <- vapply(names(x), function(n) paste0("\"", n, "\": ", json(x[[n]])), "")
    return(paste0("{", paste(parts, collapse = ", "), "}"))
  }
  if (is.list(x)) return(paste0("[", paste(vapply(x, json, ""), collapse = ", "), "]"))
  if (is.array(x)) return(json(lapply(seq_len(dim(x)[1]), function(i) {
    if (length(dim(x)) == 3) array(x[i, , ], dim(x)[-1]) else as.vector(x[i, ])
  })))
  text <- if (is.character(x)) paste0("\"", x, "\"") else {
    ifelse(as.numeric(sprintf("%.15g", x)) == x, sprintf("%.15g", x), sprintf("%.17g", x))
  }
  if (length(x) == 1 && is.null(attr(x, "many"))) text else paste0("[", paste(text, collapse = ", "), "]")
}

# Over folds --------------------------------------------------------------------------------------------------------------------

# Methods x folds x measures: methods differ, folds differ for all methods alike, and measures correlate.
folds <- function(methods, n, p, shift = 0.03) {
  of_method <- aperm(array(rnorm(methods * p, sd = shift), c(methods, p, n)), c(1, 3, 2))
  of_fold <- aperm(array(rnorm(n * p, sd = 0.05), c(n, p, methods)), c(3, 1, 2))
  of_measures <- array(rnorm(methods * n, sd = 0.03), c(methods, n, p))
  round(0.6 + of_method + of_fold + of_measures + rnorm(methods * n * p, sd = 0.03), 4)
}

long <- function(x) {
  methods <- dim(x)[1]; n <- dim(x)[2]; p <- dim(x)[3]
  list(y = matrix(aperm(x, c(2, 1, 3)), methods * n, p), method = gl(methods, n), fold = factor(rep(seq_len(n), methods)))
}

one_manova <- function(x, design) {
  d <- long(x); y <- d$y; method <- d$method; fold <- d$fold
  model <- if (design == "blocked") manova(y ~ fold + method) else manova(y ~ method)
  figures <- lapply(c(wilks = "Wilks", pillai = "Pillai", hotelling_lawley = "Hotelling-Lawley", roy = "Roy"), function(test) {
    row <- summary(model, test = test)$stats["method", ]
    list(statistic = row[[2]], f_statistic = row[[3]], df_numerator = row[[4]], df_denominator = row[[5]], pvalue = row[[6]])
  })
  ss <- summary(model)$SS
  eigenvalues <- sort(Re(eigen(solve(ss$Residuals) %*% ss$method)$values), decreasing = TRUE)
  keep <- min(dim(x)[3], dim(x)[1] - 1)
  each <- lapply(seq_len(dim(x)[3]), function(k) {
    row <- anova(if (design == "blocked") lm(y[, k] ~ fold + method) else lm(y[, k] ~ method))["method", ]
    list(f_statistic = row[["F value"]], pvalue = row[["Pr(>F)"]])
  })
  p <- dim(x)[3]; n <- dim(x)[1] - 1; m <- dim(x)[1] * (dim(x)[2] - 1)
  chi2 <- ((p - n + 1) / 2 - m) * log(figures$wilks$statistic)
  list(x = x, design = design, table = figures, eigenvalues = structure(eigenvalues[seq_len(keep)], many = TRUE),
       univariate = each, chi2 = list(statistic = chi2, pvalue = pchisq(chi2, n * p, lower.tail = FALSE)))
}

t_squared <- function(a, b, ratio) {
  d <- a - b; n <- nrow(d); p <- ncol(d); mean <- colMeans(d)
  t2 <- drop(t(mean) %*% solve(cov(d)) %*% mean) / (1 / n + ratio)
  list(a = a, b = b, ratio = ratio, statistic = t2,
       pvalue = pf((n - p) / (p * (n - 1)) * t2, p, n - p, lower.tail = FALSE), direction = drop(solve(cov(d), mean)))
}

t_squared_unpaired <- function(a, b) {
  n <- nrow(a); m <- nrow(b); p <- ncol(a); mean <- colMeans(a) - colMeans(b)
  pooled <- ((n - 1) * cov(a) + (m - 1) * cov(b)) / (n + m - 2)
  t2 <- drop(t(mean) %*% solve(pooled) %*% mean) * n * m / (n + m)
  list(a = a, b = b, statistic = t2, pvalue = pf((n + m - p - 1) / (p * (n + m - 2)) * t2, p, n + m - p - 1, lower.tail = FALSE))
}

posthoc <- function(a, b) {
  each <- lapply(seq_len(ncol(a)), function(k) t.test(a[, k], b[, k], paired = TRUE))
  p <- vapply(each, function(t) t$p.value, 0)
  list(a = a, b = b, statistic = vapply(each, function(t) t$statistic[[1]], 0), pvalue = p, corrected = p.adjust(p, "holm"),
       low = vapply(each, function(t) t$conf.int[1], 0), high = vapply(each, function(t) t$conf.int[2], 0))
}

one_mardia <- function(x) {
  n <- nrow(x); p <- ncol(x); centred <- scale(x, scale = FALSE); s <- crossprod(centred) / n
  b1 <- mean((centred %*% solve(s) %*% t(centred))^3)
  b2 <- mean(mahalanobis(x, colMeans(x), s)^2)
  k <- (p + 1) * (n + 1) * (n + 3) / (n * ((n + 1) * (p + 1) - 6)); df <- p * (p + 1) * (p + 2) / 6
  list(x = x, skewness = b1, kurtosis = b2, small_sample_pvalue = pchisq(n * k * b1 / 6, df, lower.tail = FALSE),
       skewness_pvalue = pchisq(n * b1 / 6, df, lower.tail = FALSE),
       kurtosis_pvalue = 2 * pnorm(-abs((b2 - p * (p + 2)) / sqrt(8 * p * (p + 2) / n))))
}

five_by_two <- function(a, b) {
  d <- matrix(a - b, 2)
  f <- sum(d^2) / (2 * sum((d[1, ] - d[2, ])^2 / 2))
  list(a = a, b = b, f_statistic = f, pvalue = pf(f, 10, 5, lower.tail = FALSE))
}

manovas <- list(
  one_manova(folds(4, 10, 3), "blocked"), one_manova(folds(4, 10, 3), "one-way"), one_manova(folds(3, 8, 2), "blocked"),
  one_manova(folds(2, 10, 2), "blocked"), one_manova(folds(7, 10, 4, 0.005), "blocked"), one_manova(folds(5, 6, 2), "one-way")
)
pair <- function(n, p) { x <- folds(2, n, p); list(matrix(x[1, , ], n), matrix(x[2, , ], n)) }
hotellings <- list()
for (case in list(c(10, 2, 0), c(10, 2, 1 / 9), c(10, 4, 0), c(30, 3, 1 / 9), c(5, 1, 1 / 4))) {
  x <- pair(case[1], case[2])
  hotellings <- c(hotellings, list(t_squared(x[[1]], x[[2]], case[3])))
}
x <- pair(10, 3); unpaired <- t_squared_unpaired(x[[1]], x[[2]][1:8, ])
x <- pair(10, 3); after <- posthoc(x[[1]], x[[2]])
x <- pair(10, 1); halves <- five_by_two(as.vector(x[[1]]), as.vector(x[[2]]))
mardias <- list(one_mardia(round(matrix(rnorm(120), 40) %*% matrix(c(1, .5, .2, 0, 1, .3, 0, 0, 1), 3), 4)),
                one_mardia(round(matrix(rexp(60), 30), 4)))

# Over datasets -----------------------------------------------------------------------------------------------------------------

# Chance that the range of m normal values exceeds q. ptukey(q, m, Inf) is this with an error of up to 2e-8.
range_tail <- function(q, m) vapply(q, function(q) {
  if (q == 0) return(1)
  inside <- function(z) dnorm(z) * (pnorm(z)^(m - 1) - (pnorm(z) - pnorm(z - q))^(m - 1))
  m * integrate(inside, -8, 30, rel.tol = 1e-12, subdivisions = 1000L)$value
}, 0)

one_friedman <- function(x) {
  found <- friedman.test(x)
  n <- nrow(x); m <- ncol(x); chi2 <- found$statistic[[1]]
  f <- (n - 1) * chi2 / (n * (m - 1) - chi2)
  rank <- colMeans(t(apply(x, 1, rank)))
  gaps <- abs(outer(rank, rank, "-"))
  unit <- sqrt(m * (m + 1) / (12 * n))
  q <- uniroot(function(q) range_tail(q, m) - 0.05, c(1, 8), tol = 1e-14)$root
  dunn <- pmin(1, (m - 1) * 2 * pnorm(-gaps[1, -1] / (sqrt(2) * unit)))
  list(x = x, statistic = chi2, pvalue = found$p.value, iman_davenport_statistic = f,
       iman_davenport_pvalue = pf(f, m - 1, (m - 1) * (n - 1), lower.tail = FALSE),
       ptukey = ptukey(gaps / unit, m, Inf, lower.tail = FALSE),
       nemenyi = array(range_tail(gaps / unit, m), dim(gaps)), critical_difference = q * unit, dunn = dunn,
       dunn_critical_difference = qnorm(0.05 / (2 * (m - 1)), lower.tail = FALSE) * sqrt(2) * unit)
}

results <- function(n, m, digits = 4) round(0.6 + rnorm(n, sd = 0.1) + rep(rnorm(m, sd = 0.03), each = n) +
                                              matrix(rnorm(n * m, sd = 0.04), n), digits)
friedmans <- list(one_friedman(results(14, 4)), one_friedman(results(11, 12)), one_friedman(results(20, 6, 1)))

signed_ranks <- function(a, b, exact) {
  found <- wilcox.test(a, b, paired = TRUE, exact = exact, correct = FALSE, conf.int = exact)
  list(a = a, b = b, exact = as.integer(exact), statistic = found$statistic[[1]], pvalue = found$p.value,
       greater = wilcox.test(a, b, paired = TRUE, exact = exact, correct = FALSE, alternative = "greater")$p.value,
       median = if (exact) found$estimate[[1]] else -1,
       low = if (exact) found$conf.int[1] else -1, high = if (exact) found$conf.int[2] else -1)
}
untied <- function(n) repeat {
  x <- results(n, 2, 7); d <- abs(x[, 1] - x[, 2])
  if (!anyDuplicated(d) && all(d > 0)) return(x)
}
wilcoxons <- lapply(c(8, 11, 20, 45), function(n) { x <- untied(n); signed_ranks(x[, 1], x[, 2], TRUE) })
x <- untied(250); wilcoxons <- c(wilcoxons, list(signed_ranks(x[, 1], x[, 2], FALSE)))

p <- round(runif(9), 3)^3
corrections <- list(pvalues = p, holm = p.adjust(p, "holm"), bonferroni = p.adjust(p, "bonferroni"))
x <- results(4, 9, 2); taus <- list(rankings = x, tau = cor(t(x), method = "kendall"))

# Over instances ----------------------------------------------------------------------------------------------------------------

sign_tests <- lapply(list(c(60, 100), c(9, 12), c(3, 20), c(0, 7)), function(case) {
  found <- binom.test(case[1], case[2])
  list(k = case[1], n = case[2], pvalue = found$p.value, low = found$conf.int[1], high = found$conf.int[2],
       greater = binom.test(case[1], case[2], alternative = "greater")$p.value)
})
# Eighths, so that differences that are equal are equal for wilcox.test, which does not know of float noise.
a <- round(8 * runif(600)) / 8; b <- round(8 * (a + rnorm(600, 0.01, 0.2))) / 8
tied <- suppressWarnings(wilcox.test(a, b, paired = TRUE, exact = FALSE, correct = FALSE))
instances <- list(a = a, b = b, statistic = tied$statistic[[1]], pvalue = tied$p.value)

# Beyond p-values ---------------------------------------------------------------------------------------------------------------

a <- results(12, 1)[, 1]; b <- round(a + rnorm(12, 0.004, 0.02), 4)
tost <- list(a = a, b = b, margin = 0.02, above = t.test(a, b, paired = TRUE, mu = -0.02, alternative = "greater")$p.value,
             below = t.test(a, b, paired = TRUE, mu = 0.02, alternative = "less")$p.value,
             low = t.test(a, b, paired = TRUE, conf.level = 0.9)$conf.int[1],
             high = t.test(a, b, paired = TRUE, conf.level = 0.9)$conf.int[2])
d <- a - b; scale <- sd(d) * sqrt(1 / 12 + 1 / 11)
bayes <- list(a = a, b = b, rope = 0.01, ratio = 1 / 11,
              p_a = pt((mean(d) - 0.01) / scale, 11), p_b = pt((-0.01 - mean(d)) / scale, 11))
powers <- lapply(list(c(0.5, 10), c(0.5, 34), c(1.2, 6), c(0.1, 200)), function(case) list(
  effect = case[1], n = case[2],
  power = power.t.test(n = case[2], delta = case[1], sd = 1, type = "paired", strict = TRUE)$power))

figures <- list(
  source = "r_figures.R", version = R.version.string, manova = manovas, hotelling = hotellings, unpaired = unpaired,
  posthoc = after, five_by_two = halves, mardia = mardias, friedman = friedmans, wilcoxon = wilcoxons, corrections = corrections,
  kendall = taus, sign = sign_tests, instances = instances, tost = tost, bayes = bayes, power = powers
)
lines <- vapply(names(figures), function(n) paste0("\"", n, "\": ", json(figures[[n]])), "")
cat("{\n", paste(lines, collapse = ",\n"), "\n}\n", sep = "")
