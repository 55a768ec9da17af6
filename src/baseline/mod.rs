//! Reading what is declared, one module per source: pure functions from bytes to declarations.

pub mod terraform;
