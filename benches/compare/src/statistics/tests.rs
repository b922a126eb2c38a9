use super::{Launches, Spread, choose, of};
use crate::launch::Figures;
use crate::placement::Placement::{self, Far, Mixed, Near, Unknown};

fn launches(placements: &[Placement]) -> Launches {
    let figures = |at| Figures { gb_per_s: at as f64, cpu_s_per_gb: 1.0, records: 1 };
    placements.iter().enumerate().map(|(at, placement)| (*placement, figures(at))).collect()
}

#[test]
fn a_median_is_the_middle() {
    assert_eq!(Spread::of([]), None);
    assert_eq!(Spread::of([2.0]), Some(Spread { median: 2.0, least: 2.0, most: 2.0 }));
    assert_eq!(Spread::of([9.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 9.0 }));
    assert_eq!(Spread::of([4.0, 10.0, 1.0, 2.0]), Some(Spread { median: 3.0, least: 1.0, most: 10.0 }));
}

#[test]
fn a_class_counts_if_every_peer_has_enough_of_it() {
    let mostly_far = launches(&[Near, Far, Far, Far, Far, Near, Near]);
    let mostly_near = launches(&[Near, Far, Near, Near, Mixed, Far, Far]);
    assert_eq!(choose(&[mostly_far.clone(), mostly_near.clone()]), Some(Near));
    assert_eq!(choose(std::slice::from_ref(&mostly_far)), Some(Far));
    assert_eq!(choose(&[mostly_near, launches(&[Far, Far])]), None);
    assert_eq!(choose(&[mostly_far, launches(&[])]), None);
    assert_eq!(choose(&[]), None);
}

#[test]
fn what_is_no_class_is_pooled() {
    assert_eq!(choose(&[launches(&[Mixed; 7])]), None);
    assert_eq!(choose(&[launches(&[Unknown; 7])]), None);
}

#[test]
fn launches_of_a_class_or_all() {
    let some = launches(&[Near, Far, Mixed, Near]);
    let values = |class| of(&some, class).map(|figures| figures.gb_per_s).collect::<Vec<_>>();
    assert_eq!(values(Some(Near)), [0.0, 3.0]);
    assert_eq!(values(None), [0.0, 1.0, 2.0, 3.0]);
}
