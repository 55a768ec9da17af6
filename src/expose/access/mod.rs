//! Who may ask for what, and how much of it they are shown.

mod caller;

pub(super) use caller::Caller;
