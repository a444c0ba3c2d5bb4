//! Commands that speak with a forge: `ostler hook`, `ostler check --live`.

mod desk;
mod hook;
mod live;
