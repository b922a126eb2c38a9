//! The model of `queue`: the array queue of numbered slots, with no more order between threads than
//! crossbeam's promises. A locked deque would order a pop after every push before it, and hide edges that the
//! real queue leaves to its user.

/// A bounded FIFO queue that any thread may push to and pop from.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    head: loom::sync::atomic::AtomicUsize,
    tail: loom::sync::atomic::AtomicUsize,
    slots: Box<[Slot<T>]>,
}

/// `stamp` is the number of the push that may fill the slot, or of the pop that may empty it, plus one.
#[derive(Debug)]
struct Slot<T> {
    stamp: loom::sync::atomic::AtomicUsize,
    item: super::Exclusive<Option<T>>,
}

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        use loom::sync::atomic::AtomicUsize;
        // With a single slot the stamps of full and empty would be the same.
        let slots = (0..capacity.max(2))
            .map(|number| Slot { stamp: AtomicUsize::new(number), item: super::Exclusive::new(None) });
        Self { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), slots: slots.collect() }
    }

    /// Gives the item back when the queue is full.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        use super::Ordering;
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let slot = &self.slots[tail % self.slots.len()];
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp == tail {
                if self.tail.compare_exchange(tail, tail + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    // SAFETY: the exchange made the slot this thread's until the stamp is stored.
                    unsafe { slot.item.with_mut(|place| *place = Some(item)) };
                    slot.stamp.store(tail + 1, Ordering::Release);
                    return Ok(());
                }
            } else if stamp < tail {
                return Err(item);
            }
            loom::thread::yield_now();
        }
    }

    pub(crate) fn pop(&self) -> Option<T> {
        use super::Ordering;
        loop {
            let head = self.head.load(Ordering::Relaxed);
            let slot = &self.slots[head % self.slots.len()];
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp == head + 1 {
                if self.head.compare_exchange(head, head + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    // SAFETY: the exchange made the slot this thread's until the stamp is stored.
                    let item = unsafe { slot.item.with_mut(Option::take) };
                    slot.stamp.store(head + self.slots.len(), Ordering::Release);
                    return item;
                }
            } else if self.tail.load(Ordering::Relaxed) == head {
                return None;
            }
            loom::thread::yield_now();
        }
    }
    /// Whether nothing is there right now; a hint.
    pub(crate) fn is_empty(&self) -> bool {
        use super::Ordering;
        self.head.load(Ordering::Relaxed) == self.tail.load(Ordering::Relaxed)
    }
}
