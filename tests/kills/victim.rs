//! The consumer attempts that go one after the other: processes that are killed, tasks that drop their gate, tasks
//! that stand still and are replaced.

use crate::child::Child;
use crate::common::{KILLED, consumer_log, now, until, worker};
use crate::consumer::{DROP, Over, READ, STOP, STOPPED, consume};
use crate::log::{Log, Note};
use pirn::{ChannelDescriptor, Io, Worker};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Where the consumers are, and how an attempt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A process, by SIGKILL.
    Killed(Io),
    /// The same, and between two that read one that is killed at any moment of its start.
    KilledEarly(Io),
    /// A thread of the producer's process drops its gate.
    Dropped,
    /// A thread of the producer's process stands still, with all that it has, and the next attempt binds beside it.
    Stuck,
}

impl Way {
    /// The producer's worker.
    pub(crate) fn worker(self) -> Worker {
        worker(if let Self::Killed(io) | Self::KilledEarly(io) = self { Some(io) } else { None }, 4096)
    }
}

/// Consumers of some channels.
pub(crate) enum Consumers {
    Process(Child),
    Threads(Vec<JoinHandle<Result<Over, String>>>),
}

/// What is needed to start consumers.
pub(crate) struct Starter<'a> {
    pub(crate) way: Way,
    pub(crate) folder: &'a Path,
    pub(crate) worker: &'a Worker,
}

impl Starter<'_> {
    pub(crate) fn start(&self, attempt: u8, channels: &[ChannelDescriptor]) -> Consumers {
        if let Way::Killed(io) | Way::KilledEarly(io) = self.way {
            return Consumers::Process(Child::spawn(io, self.folder, attempt, channels));
        }
        let thread = |channel: &ChannelDescriptor| {
            let (worker, channel) = (self.worker.clone(), channel.clone());
            let folder = self.folder.to_owned();
            thread::spawn(move || consume(&worker, &channel, attempt, &folder))
        };
        Consumers::Threads(channels.iter().map(thread).collect())
    }
}

impl Consumers {
    pub(crate) fn assert_alive(&mut self) {
        match self {
            Self::Process(child) => child.assert_alive(),
            Self::Threads(threads) => {
                if let Some(at) = threads.iter().position(JoinHandle::is_finished) {
                    panic!("a consumer has ended by itself: {:?}", threads.swap_remove(at).join());
                }
            }
        }
    }

    fn kill(self) {
        match self {
            Self::Process(child) => child.kill(),
            Self::Threads(_) => unreachable!("threads can't be killed"),
        }
    }

    /// They come to the end `over` by themselves.
    pub(crate) fn end(self, over: Over) {
        match self {
            Self::Process(child) => child.end(),
            Self::Threads(threads) => {
                until(|| threads.iter().all(JoinHandle::is_finished), || "a consumer doesn't end".into());
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), Ok(over));
                }
            }
        }
    }
}

/// The attempts of the consumer that goes again and again.
pub(crate) struct Victims<'a> {
    pub(crate) starter: Starter<'a>,
    pub(crate) channel: ChannelDescriptor,
    pub(crate) log: Arc<Log>,
    pub(crate) attempt: u8,
    pub(crate) current: Option<Consumers>,
    /// Those that stand still.
    pub(crate) stuck: Vec<(u8, Consumers)>,
    /// From the start of an attempt to its first record, the longest, in nanoseconds.
    pub(crate) slowest: u64,
}

impl<'a> Victims<'a> {
    pub(crate) fn new(starter: Starter<'a>, channel: ChannelDescriptor) -> Self {
        assert_eq!(channel.subpartition, KILLED);
        let log = Arc::new(Log::open(&consumer_log(starter.folder, KILLED)).unwrap());
        Self { starter, channel, log, attempt: 0, current: None, stuck: Vec::new(), slowest: 0 }
    }

    /// Starts the next attempt, and waits for its first record. Returns what was the current one.
    fn next(&mut self) -> Option<Consumers> {
        self.attempt += 1;
        let (attempt, log) = (self.attempt, self.log.clone());
        let start = now();
        let mut next = self.starter.start(attempt, std::slice::from_ref(&self.channel));
        let picture = || format!("attempt {attempt}: {:#?}", self.starter.worker.snapshot());
        until(
            || {
                let bound = log.get(attempt, Note::Yielded) > 0;
                if !bound {
                    next.assert_alive();
                }
                bound
            },
            picture,
        );
        self.slowest = self.slowest.max(now() - start);
        self.current.replace(next)
    }

    pub(crate) fn first(&mut self) {
        assert!(self.next().is_none());
    }

    /// The current attempt goes, and the next one is bound: `beside` it, or after it is gone and `absence` is over.
    pub(crate) fn replace(&mut self, beside: bool, absence: impl FnOnce()) {
        let old = self.attempt;
        match self.starter.way {
            Way::KilledEarly(_) => {
                let current = self.current.take().expect("there is a current one");
                if beside {
                    self.fleeting(absence);
                    current.kill();
                } else {
                    current.kill();
                    self.fleeting(absence);
                }
                assert!(self.next().is_none());
            }
            Way::Stuck => {
                self.log.set(old, Note::Order, STOP);
                until(|| self.log.get(old, Note::Order) == STOPPED, || "a reader doesn't stop".into());
                absence();
                let stuck = self.next().expect("there is a current one");
                self.stuck.push((old, stuck));
            }
            _ if beside => match self.next().expect("there is a current one") {
                Consumers::Threads(threads) => Consumers::Threads(threads).end(Over::Fenced),
                process => process.kill(),
            },
            _ => {
                match self.current.take().expect("there is a current one") {
                    Consumers::Threads(threads) => {
                        self.log.set(old, Note::Order, DROP);
                        Consumers::Threads(threads).end(Over::Dropped);
                    }
                    process => process.kill(),
                }
                absence();
                assert!(self.next().is_none());
            }
        }
    }

    /// An attempt that is killed when `life` is over, wherever it is.
    fn fleeting(&mut self, life: impl FnOnce()) {
        self.attempt += 1;
        let consumers = self.starter.start(self.attempt, std::slice::from_ref(&self.channel));
        life();
        consumers.kill();
    }

    /// Those that stand still read on: what is theirs, and then that they are over.
    pub(crate) fn wake_stuck(&mut self) {
        for (attempt, consumers) in self.stuck.drain(..) {
            self.log.set(attempt, Note::Order, READ);
            consumers.end(Over::Fenced);
        }
    }
}
