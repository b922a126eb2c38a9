//! Models of `inbox::remote`: what a network thread feeds comes through, and what the task says of it belongs
//! together and is heard.

use super::Model;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::event::PriorityEvent;
use crate::inbox::{
    Chunk, Delivery, Feeder, Over, Picture, RemoteEnd, RemoteEvent, RemoteReader, with_capacity,
};
use crate::record::{Admission, RecordLayout, UNIFORM_NONE};
use crate::subpartition::Next;
use crate::sync::{Exclusive, thread};
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "remote::words_of_a_picture_belong_together",
        edges: &["PROG_E1", "PROG_E2"],
        preemptions: None,
        body: words_of_a_picture_belong_together,
    },
    Model {
        name: "remote::the_last_picture_comes_with_the_end",
        edges: &["FEED_E1"],
        preemptions: None,
        body: the_last_picture_comes_with_the_end,
    },
    Model {
        name: "remote::what_the_queue_refused_comes_through",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: what_the_queue_refused_comes_through,
    },
    Model {
        name: "remote::sleeping_feeder_hears_how_far_the_task_is",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: sleeping_feeder_hears_how_far_the_task_is,
    },
    Model {
        name: "remote::priority_event_is_heard_and_its_place_comes_back",
        edges: &["DOOR_E1"],
        preemptions: Some(2),
        body: priority_event_is_heard_and_its_place_comes_back,
    },
    Model {
        name: "remote::a_feeder_that_is_gone_leaves_what_it_pushed",
        edges: &["INBOX_E1"],
        preemptions: None,
        body: a_feeder_that_is_gone_leaves_what_it_pushed,
    },
];

/// A channel whose ends sleep by bells of their own.
struct Bench {
    task: Arc<Doorbell>,
    network: Arc<Doorbell>,
}

impl Bench {
    /// The queue takes two.
    fn new() -> (Self, Feeder, RemoteReader) {
        let bench = Self { task: Doorbell::new(), network: Doorbell::new() };
        let (feeder, reader) = bench.channel();
        (bench, feeder, reader)
    }

    /// No ring orders anything.
    fn silent() -> (Self, Feeder, RemoteReader) {
        let bench = Self { task: Doorbell::new(), network: Doorbell::new() };
        bench.task.close();
        bench.network.close();
        let (feeder, reader) = bench.channel();
        (bench, feeder, reader)
    }

    fn channel(&self) -> (Feeder, RemoteReader) {
        let nodes = [&self.task, &self.network].map(|bell| ReadyNode::new(bell, 0));
        let [task, network] = nodes;
        let (feeder, end): (Feeder, RemoteEnd) = with_capacity(task, network, 1 << 16, 2);
        (feeder, RemoteReader::new(end, RecordLayout::Lengths, 64, false))
    }

    fn close(&self) {
        self.task.close();
        self.network.close();
    }
}

/// One record of one byte.
fn record(value: u8) -> Delivery {
    let bytes = Chunk::Heap(Bytes::from(vec![1, 0, 0, 0, value]));
    Delivery::Data { uniform: UNIFORM_NONE, bytes }
}

/// What the task comes to, or `None` when nothing is there.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Record(u8),
    Priority,
    End,
    Gone,
}

fn next(reader: &mut RemoteReader, admission: &mut Admission) -> Option<Got> {
    match reader.next(admission) {
        Next::Record => Some(Got::Record(reader.current()[0])),
        Next::Priority(_) => Some(Got::Priority),
        Next::EndOfPartition { .. } => Some(Got::End),
        Next::Fenced => {
            assert!(matches!(reader.over(), Some(Over::Gone(_))));
            Some(Got::Gone)
        }
        Next::Empty => None,
        other => panic!("{other:?}"),
    }
}

/// The task's next item; sleeps until there is one.
fn wait(bell: &Doorbell, reader: &mut RemoteReader) -> Got {
    let mut admission = Admission::new(64);
    loom::future::block_on(poll_fn(|cx| {
        loop {
            bell.take_all(|node| node.clear());
            match next(reader, &mut admission) {
                Some(got) => return Poll::Ready(got),
                None if bell.may_sleep(cx.waker()) => return Poll::Pending,
                None => {}
            }
        }
    }))
}

/// The network thread sleeps until `done`.
fn serve(bell: &Doorbell, feeder: &mut Feeder, mut done: impl FnMut(&mut Feeder) -> bool) {
    loom::future::block_on(poll_fn(|cx| {
        loop {
            bell.take_all(|node| node.clear());
            if done(feeder) {
                return Poll::Ready(());
            }
            if bell.may_sleep(cx.waker()) {
                return Poll::Pending;
            }
        }
    }));
}

/// Excluded: a picture with one word of before and one of after.
fn words_of_a_picture_belong_together() {
    let picture = Arc::new(Picture::<2>::new());
    // One look, and no loop that yields: what was yielded for is seen in the end, edge or not.
    let network = thread::spawn({
        let picture = Arc::clone(&picture);
        move || picture.look()
    });
    picture.publish([1, 1]);
    picture.publish([2, 2]);
    let look = network.join().unwrap();
    if let Some([one, other]) = look {
        assert_eq!(one, other, "torn");
    }
    assert_eq!(picture.look(), Some([2, 2]));
}

/// Excluded: the network thread closes the stream with less consumed than was, or while the task still does
/// something with the channel. (A cell stands for what the task does: the fence in the look at the picture
/// would hide a missing edge of the end.)
fn the_last_picture_comes_with_the_end() {
    let (_bench, mut feeder, mut reader) = Bench::silent();
    feeder.push(record(7));
    let touched = Arc::new(Exclusive::new(false));
    let task = thread::spawn({
        let touched = Arc::clone(&touched);
        move || {
            // SAFETY: the edge that the model proves orders this before the network thread's touch.
            unsafe { touched.with_mut(|touched| *touched = true) };
            let mut admission = Admission::new(64);
            assert_eq!(next(&mut reader, &mut admission), Some(Got::Record(7)));
            reader.settle(&mut admission);
            drop(reader);
        }
    });
    if feeder.is_closed() {
        // SAFETY: as above.
        assert!(unsafe { touched.with_mut(|touched| *touched) });
        assert_eq!(feeder.progress().consumed.amount.records, 1);
    }
    task.join().unwrap();
}

/// Excluded: what didn't fit waits with the network thread for ever, or comes in another order.
fn what_the_queue_refused_comes_through() {
    let (bench, mut feeder, mut reader) = Bench::new();
    let network = thread::spawn({
        let bell = Arc::clone(&bench.network);
        move || {
            feeder.push(record(1));
            feeder.push(record(2));
            feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
            serve(&bell, &mut feeder, Feeder::flush);
            feeder
        }
    });
    let got = [(); 3].map(|()| wait(&bench.task, &mut reader));
    assert_eq!(got, [Got::Record(1), Got::Record(2), Got::End]);
    drop(network.join().unwrap());
    bench.close();
}

/// Excluded: the task has taken everything and sleeps, and so does the network thread, which has credit to
/// give.
fn sleeping_feeder_hears_how_far_the_task_is() {
    let (bench, mut feeder, mut reader) = Bench::new();
    let network = thread::spawn({
        let bell = Arc::clone(&bench.network);
        move || {
            feeder.push(record(1));
            serve(&bell, &mut feeder, |feeder| {
                let progress = feeder.progress();
                progress.left == 5 && progress.consumed.amount.records == 1
            });
            feeder.push(Delivery::Event(RemoteEvent::EndOfPartition));
            feeder
        }
    });
    assert_eq!(wait(&bench.task, &mut reader), Got::Record(1));
    assert_eq!(wait(&bench.task, &mut reader), Got::End);
    drop(network.join().unwrap());
    bench.close();
}

/// Excluded: the task sleeps past a priority event, or the network thread past its acknowledgement.
fn priority_event_is_heard_and_its_place_comes_back() {
    let (bench, mut feeder, mut reader) = Bench::new();
    let network = thread::spawn({
        let bell = Arc::clone(&bench.network);
        move || {
            assert!(feeder.push_priority(PriorityEvent::new(&[1]).unwrap()));
            serve(&bell, &mut feeder, |feeder| feeder.progress().priority == 1);
            feeder
        }
    });
    assert_eq!(wait(&bench.task, &mut reader), Got::Priority);
    drop(network.join().unwrap());
    bench.close();
}

/// Excluded: the task believes in the end of the network before the last record.
fn a_feeder_that_is_gone_leaves_what_it_pushed() {
    let (_bench, mut feeder, mut reader) = Bench::silent();
    let task = thread::spawn(move || {
        let mut admission = Admission::new(64);
        let got = next(&mut reader, &mut admission);
        assert_ne!(got, Some(Got::Gone), "the end came before the record");
    });
    feeder.push(record(1));
    drop(feeder);
    task.join().unwrap();
}
