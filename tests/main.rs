//! One binary for every test outside the core, one module a layer. See `tests/README.md`.

mod browser;
mod daemon;
mod layers;
mod shipped;
mod sim;
mod spec;
mod support;
mod vocabulary;
mod walkthroughs;
mod wire;
