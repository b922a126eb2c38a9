//! A bounded multi-producer queue: crossbeam's. Under loom `queue_model` takes its place.

/// A bounded FIFO queue that any thread may push to and pop from without a lock.
#[derive(Debug)]
pub(crate) struct Queue<T>(crossbeam_queue::ArrayQueue<T>);

impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self(crossbeam_queue::ArrayQueue::new(capacity.max(1)))
    }

    /// Gives the item back when the queue is full.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        self.0.push(item)
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    /// Whether nothing is there right now; a hint.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
