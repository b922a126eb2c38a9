//! A bounded multi-producer queue: crossbeam's `ArrayQueue` in production, a locked deque under loom.

/// A bounded FIFO queue that any thread may push to and pop from without a lock.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Queue<T>(crossbeam_queue::ArrayQueue<T>);

#[cfg(not(loom))]
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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The model of the queue: one lock, the same promises (FIFO, a pop sees what its push saw).
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Queue<T> {
    capacity: usize,
    items: loom::sync::Mutex<std::collections::VecDeque<T>>,
}

#[cfg(loom)]
impl<T> Queue<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), items: loom::sync::Mutex::new(Default::default()) }
    }

    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut items = super::lock(&self.items);
        if items.len() == self.capacity {
            return Err(item);
        }
        items.push_back(item);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        super::lock(&self.items).pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        super::lock(&self.items).is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        super::lock(&self.items).len()
    }
}
