//! What is left of many hostile peers, in a process where nobody else takes memory, descriptors or the log.

use super::peer::{Peer, Port};
use super::{Victim, WAYS, binders, next, partition, servers};
use crate::gate::Item;
use crate::sync::{AtomicU64, Ordering};
use crate::test_size::pick;
use crate::worker::Driver;
use std::sync::Arc;

const ALONE: &str = "PIRN_TEST_HOSTILE_ALONE";

/// Counts lines about broken rules: those that are there, and those that they say were left out.
#[derive(Debug, Clone, Default)]
struct Log(Arc<AtomicU64>, Arc<AtomicU64>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new(), 0);
        event.record(&mut line);
        if line.0.contains("broke a rule") {
            // Every one says who and by which rule.
            assert!(line.0.contains("P-") && line.0.contains("127.0.0.1"), "{}", line.0);
            self.0.fetch_add(1, Ordering::Relaxed); // Relaxed: a count
            self.1.fetch_add(line.1, Ordering::Relaxed); // Relaxed: a count
        } else if line.0.contains("none came behind them") {
            self.1.fetch_add(line.1, Ordering::Relaxed); // Relaxed: a count
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line(String, u64);

impl tracing::field::Visit for Line {
    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        if field.name() == "left_out" {
            self.1 = value;
        }
    }

    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{value:?} ");
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Memory of the process that is in use, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// All of the tables once; so many rules broken.
fn round(victim: &Victim) -> u64 {
    let mut count = 0;
    for case in 0..binders::fatal(crate::id::BindEpoch(1)).len() {
        let (mut peer, epochs) = Peer::bound(victim.address(), 0, 2);
        let (name, rule, bytes) = binders::fatal(epochs[0]).remove(case);
        peer.send(&bytes);
        peer.expect_error(name, rule, None);
        count += 1;
    }
    for (name, rule, stream, bytes) in servers::wrong() {
        let mut port = Port::open();
        let mut gate = servers::gate(victim, &port);
        let mut peer = servers::begin(&mut gate, &mut port);
        peer.send(&bytes);
        peer.expect_error(name, rule, Some(stream));
        count += 1;
    }
    for (name, rule, bytes) in servers::fatal() {
        let mut port = Port::open();
        let mut gate = servers::gate(victim, &port);
        let mut peer = servers::begin(&mut gate, &mut port);
        peer.send(&bytes);
        peer.expect_error(name, rule, None);
        while !matches!(next(&mut gate), Item::Unavailable { .. }) {}
        count += 1;
    }
    count
}

#[test]
fn many_hostile_peers_leave_nothing_behind() {
    if std::env::var_os(ALONE).is_none() {
        let name = "worker::tests::hostile::alone::many_hostile_peers_leave_nothing_behind";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let (told, log) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && told.contains("1 passed"), "{told}{log}");
        return;
    }
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    for way in &WAYS {
        let told = || [&log.0, &log.1].map(|count| count.load(Ordering::Relaxed)); // Relaxed: counts
        let before_all = told();
        let victim = Victim::new(*way);
        let writer = partition(&victim.worker, 0);
        let mut count = 0;
        let mut rounds = |rounds: u32| {
            count += (0..rounds).map(|_| round(&victim)).sum::<u64>();
            victim.until_counted(count, 1);
            super::until("all control connections are gone", || {
                victim.worker.snapshot().network.unwrap().handshakes == 0
            });
        };
        rounds(2);
        let before = (descriptors(), resident());
        rounds(pick(5, 100));
        super::until("descriptors are as before", || descriptors() <= before.0);
        let after = resident();
        assert!(after < before.1 + 4096, "KiB resident before and after: {} {after}", before.1);
        // A last one, once a line is due again, says how many had none; of another reactor's it is said at the end. Parked, this thread might be woken early: by
        // what rang for it while it read from a gate.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let (mut peer, epochs) = Peer::bound(victim.address(), 0, 2);
        let (name, rule, bytes) = binders::fatal(epochs[0]).remove(0);
        peer.send(&bytes);
        peer.expect_error(name, rule, None);
        count += 1;
        victim.until_counted(count, 1);
        let since = || {
            let [lines, left_out] = told();
            (lines - before_all[0], left_out - before_all[1])
        };
        if matches!(way.1, Driver::Threads(_)) {
            let (lines, left_out) = since();
            assert_eq!(lines + left_out, count, "a line each, or counted in one: {lines} lines");
        }
        drop(writer);
        victim.end(count);
        let (lines, left_out) = since();
        assert_eq!(lines + left_out, count, "a line each, or counted in one, {way:?}: {lines} lines");
        assert!(left_out > 0, "{count} lines");
    }
}
