//! Clients to put under the layers: one that is ready, and reqwest's.

#[cfg(feature = "client-hyper")]
pub mod hyper;
#[cfg(feature = "reqwest")]
pub mod reqwest;
