//! Hints to the processor about memory that is written soon: they change nothing but the time it takes.
//!
//! A writer's segments go round through more memory than a core's cache keeps. Stores to lines
//! that have to be fetched first wait in the store buffer, which holds no more than half a kibibyte to a kibibyte of
//! copied bytes: too little to hide the way to memory. Fetched by hints a few kibibytes ahead, the lines are there.

/// The line at this address is written soon. Any address will do.
#[inline(always)]
pub(crate) fn prefetch_write(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: a hint: it reads and writes nothing, and faults nowhere. Processors without it take it for a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = at;
}
