//! Reading what is declared, one module per source: functions from bytes to declarations, and the tasks that follow them.

mod feed;
pub mod terraform;
