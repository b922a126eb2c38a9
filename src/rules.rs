//! Rules that the simulation can switch off, one at a time, to prove that it would notice.
//!
//! [`rule!`]`(NAME, condition)` stands where one of them is kept: in a build that ships it is the condition and
//! nothing else. In unit tests a thread can switch one off for a while (`without`), and the condition counts as
//! kept.
#![forbid(unsafe_code)]

/// Makes the list of what can be switched off.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What can be switched off.
        #[cfg(test)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::upper_case_acronyms, non_camel_case_types, reason = "names of rules, as they stand in the code")]
        pub(crate) enum Rule {
            $($(#[$doc])* $name,)+
        }

        #[cfg(test)]
        impl Rule {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

rules! {
    /// Stream bytes of another bind epoch are dropped.
    DATA_EPOCH,
    /// Stream bytes and entries begin where the ones before ended.
    DATA_POSITION,
    /// No more stream bytes come than were granted.
    DATA_CREDIT,
    /// A view of an older epoch takes nothing.
    VIEW_FENCE,
    /// An older attempt of a consumer isn't bound.
    NEWEST_ATTEMPT,
    /// The first byte that a new view takes is the first of a record.
    RECORD_BOUNDARY,
}

/// The condition, unless the rule is switched off.
#[cfg(not(test))]
macro_rules! rule {
    ($name:ident, $condition:expr) => {
        $condition
    };
}
/// The condition, unless the rule is switched off.
#[cfg(test)]
macro_rules! rule {
    ($name:ident, $condition:expr) => {
        ($crate::rules::is_off($crate::rules::Rule::$name) || $condition)
    };
}
pub(crate) use rule;

#[cfg(test)]
thread_local! {
    static OFF: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn is_off(rule: Rule) -> bool {
    OFF.get() == Some(rule)
}

/// Does something with a rule switched off for this thread.
#[cfg(test)]
pub(crate) fn without<R>(rule: Option<Rule>, run: impl FnOnce() -> R) -> R {
    struct Restore(Option<Rule>);
    impl Drop for Restore {
        fn drop(&mut self) {
            OFF.set(self.0);
        }
    }
    let _restore = Restore(OFF.replace(rule));
    run()
}
