use super::Placement;
use rustix::thread::sched_getaffinity;

#[test]
fn classes_have_their_bounds() {
    for (nanos, class) in
        [(30, Placement::Near), (250, Placement::Near), (251, Placement::Far), (u64::MAX, Placement::Far)]
    {
        assert_eq!(Placement::of(nanos), class, "{nanos}");
    }
}

#[test]
fn a_placement_that_changed_is_mixed() {
    assert_eq!(Placement::between(Placement::Near, Placement::Near), Placement::Near);
    assert_eq!(Placement::between(Placement::Near, Placement::Far), Placement::Mixed);
    assert_eq!(Placement::between(Placement::Unknown, Placement::Unknown), Placement::Unknown);
}

#[test]
fn the_probe_comes_to_an_end() {
    let several = sched_getaffinity(None).unwrap().count() > 1;
    assert_eq!(Placement::probe() != Placement::Unknown, several);
}
