//! A cell for one thread at a time, whose hand-over is ordered by the atomics around it.

/// Data that one thread at a time touches, through closures only: loom reports a touch that isn't
/// ordered after the one before.
#[derive(Debug)]
pub(crate) struct Exclusive<T> {
    #[cfg(not(loom))]
    inner: std::cell::UnsafeCell<T>,
    #[cfg(loom)]
    inner: loom::cell::UnsafeCell<T>,
}

// SAFETY: access is only through `with` and `with_mut`, whose callers promise one thread at a time with
// an edge between two of them, so `T: Send` is all that sharing the cell asks for.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            #[cfg(not(loom))]
            inner: std::cell::UnsafeCell::new(value),
            #[cfg(loom)]
            inner: loom::cell::UnsafeCell::new(value),
        }
    }

    /// # Safety
    /// - No other thread is inside `with_mut` of this cell, and none enters it until this call returns.
    /// - `touch` doesn't call back into the same cell.
    pub(crate) unsafe fn with_mut<R>(&self, touch: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        // SAFETY: the caller promises exclusive access for the length of the call.
        return touch(unsafe { &mut *self.inner.get() });
        #[cfg(loom)]
        // SAFETY: the same promise; loom checks it.
        return self.inner.with_mut(|value| touch(unsafe { &mut *value }));
    }
}
