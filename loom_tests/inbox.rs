//! Models of `inbox`: nothing that was pushed before the end is missed, and its owner hears of it.

use super::Model;
use crate::doorbell::{Doorbell, ReadyNode};
use crate::inbox::{Inbox, Popped};
use crate::sync::thread;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "inbox::the_last_item_comes_before_the_end",
        edges: &["INBOX_E1"],
        preemptions: None,
        body: the_last_item_comes_before_the_end,
    },
    Model {
        name: "inbox::the_owner_hears_of_items_and_of_the_end",
        edges: &["DOOR_E1", "DOOR_E2", "WAKE_F1"],
        preemptions: Some(2),
        body: the_owner_hears_of_items_and_of_the_end,
    },
    Model {
        name: "inbox::what_meets_the_end_is_let_go",
        edges: &["DOOR_E1"],
        preemptions: None,
        body: what_meets_the_end_is_let_go,
    },
];

/// Excluded: a socket is handed to a thread that ends at this moment; the one has looked for the end before it came,
/// the other for the socket before it was there, and it stays open for as long as anybody knows the thread. The bell
/// is closed, so that no fence of a ring orders anything.
fn what_meets_the_end_is_let_go() {
    let bell = Doorbell::new();
    bell.close();
    let inbox = Arc::new(Inbox::new(2, ReadyNode::new(&bell, 0)));
    let socket = Arc::new(());
    let owner = thread::spawn({
        let inbox = Arc::clone(&inbox);
        move || inbox.end()
    });
    let hander = thread::spawn({
        let (inbox, socket) = (Arc::clone(&inbox), Arc::clone(&socket));
        move || drop(inbox.hand(socket))
    });
    owner.join().unwrap();
    hander.join().unwrap();
    assert_eq!(Arc::strong_count(&socket), 1, "left in the queue");
}

/// Excluded: the owner finds the queue empty, the last item and the end come, and the owner believes the
/// end without another look. The bell is closed, so that no fence of a ring orders anything.
fn the_last_item_comes_before_the_end() {
    let bell = Doorbell::new();
    bell.close();
    let inbox = Arc::new(Inbox::new(2, ReadyNode::new(&bell, 0)));
    // One look, and no loop that yields: what a thread yielded for it sees in the end, edge or not.
    let owner = thread::spawn({
        let inbox = Arc::clone(&inbox);
        move || assert_ne!(inbox.pop(), Popped::Closed, "the end came before the last item")
    });
    inbox.push(7_u32).unwrap();
    inbox.close();
    owner.join().unwrap();
}

/// The owner sleeps by its doorbell; a wake-up that doesn't come leaves all threads blocked.
fn the_owner_hears_of_items_and_of_the_end() {
    let bell = Doorbell::new();
    let inbox = Arc::new(Inbox::new(2, ReadyNode::new(&bell, 0)));
    let pusher = thread::spawn({
        let inbox = Arc::clone(&inbox);
        move || {
            inbox.push(1_u32).unwrap();
            inbox.close();
        }
    });
    let mut sum = 0;
    loom::future::block_on(poll_fn(|cx| {
        loop {
            bell.take_all(|node| node.clear());
            match inbox.pop() {
                Popped::Item(item) => sum += item,
                Popped::Closed => return Poll::Ready(()),
                Popped::Empty if bell.may_sleep(cx.waker()) => return Poll::Pending,
                Popped::Empty => {}
            }
        }
    }));
    assert_eq!(sum, 1);
    pusher.join().unwrap();
    bell.close();
}
