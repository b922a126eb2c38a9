//! Medians and spreads, and which launches may be compared with each other.

use crate::launch::Figures;
use crate::placement::Placement;

/// Launches of every peer that a class of placement needs to be compared on its own.
const ENOUGH: usize = 3;

/// The launches of one peer that went well, each with its placement.
pub(crate) type Launches = Vec<(Placement, Figures)>;

/// Several values in three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of no values there is none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, least, most })
    }
}

/// The class of placement whose launches are compared: the one in which the peer that has the fewest launches has the
/// most, if these are enough. `None` if there is no such class: then all launches are compared, whatever their class.
///
/// `Mixed` is no class: its launches saw both.
pub(crate) fn choose(peers: &[Launches]) -> Option<Placement> {
    let fewest = |class| peers.iter().map(|launches| of(launches, Some(class)).count()).min().unwrap_or(0);
    let best = [Placement::Far, Placement::Near].into_iter().max_by_key(|class| fewest(*class))?;
    (fewest(best) >= ENOUGH).then_some(best)
}

/// The figures of the launches of one class, or of all.
pub(crate) fn of(launches: &Launches, class: Option<Placement>) -> impl Iterator<Item = Figures> {
    let counts = move |placement: &Placement| class.is_none_or(|class| class == *placement);
    launches.iter().filter(move |(placement, _)| counts(placement)).map(|(_, figures)| *figures)
}

#[cfg(test)]
mod tests;
