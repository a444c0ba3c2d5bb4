//! Commands that speak with a forge: `ostler hook`, `ostler check --live`.

mod fixture;
mod hook;
mod live;
