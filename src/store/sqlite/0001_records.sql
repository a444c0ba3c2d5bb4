-- The records of one fleet. Times are microseconds since 1970; bodies are JSON, written and read whole.
-- Columns beside a body repeat what is searched for. The folder `postgres` says the same in its words.

create table identity (
    one integer primary key check (one = 1),
    controller text not null,
    created_at integer not null
) strict;

-- Who may write. The epoch only rises; `expires_at` counts on PostgreSQL alone, where no file lock decides.
create table lease (
    one integer primary key check (one = 1),
    epoch integer not null,
    holder text,
    process text,
    expires_at integer not null
) strict;

insert into lease (one, epoch, expires_at) values (1, 0, 0);

create table holders (
    epoch integer primary key,
    holder text not null unique,
    taken_at integer not null
) strict;

create table pools (
    id text primary key,
    body text not null
) strict, without rowid;

create table instances (
    id text primary key,
    pool text not null,
    provider text not null,
    machine text not null,
    state text not null,
    version integer not null,
    write_id integer not null,
    created_at integer not null,
    since integer not null,
    body text not null
) strict;

create unique index instances_own_one_machine on instances (provider, machine) where state <> 'deleted';
create index instances_live on instances (pool, id) where state <> 'deleted';
create index instances_gone on instances (since, id) where state = 'deleted';
create index instances_listed on instances (created_at, id);

create table exits (
    instance text primary key,
    pool text not null,
    verdict text not null,
    at integer not null,
    body text not null,
    tail text not null
) strict;

create index exits_listed on exits (at, instance);

-- `seq` orders all timelines; an event that is repeated takes a new one, so followers hear of it.
create table events (
    seq integer primary key autoincrement,
    kind text not null,
    subject text not null,
    place integer not null,
    at integer not null,
    body text not null
) strict;

create unique index events_timeline on events (kind, subject, place);

create table jobs (
    forge text not null,
    number integer not null,
    pool text,
    state text not null,
    open integer not null,
    heard_at integer not null,
    over_at integer,
    body text not null,
    primary key (forge, number)
) strict;

create index jobs_open on jobs (forge, number) where open = 1;
create index jobs_over on jobs (over_at, state) where open = 0;
create index jobs_listed on jobs (heard_at, forge, number);

create table tombstones (
    forge text not null,
    number integer not null,
    at integer not null,
    primary key (forge, number)
) strict, without rowid;

-- Marks of the ledger's saves, so that a repeated one finds itself.
create table ledger_writes (
    seq integer primary key autoincrement,
    write_id integer not null unique
) strict;

create table inbox (
    seq integer primary key autoincrement,
    delivery text not null unique,
    notice text,
    accepted_at integer not null
) strict;

create index inbox_unhandled on inbox (seq) where notice is not null;
create index inbox_accepted on inbox (accepted_at) where notice is null;

create table cursors (
    name text primary key,
    value text not null,
    at integer not null
) strict, without rowid;

create table audit (
    seq integer primary key autoincrement,
    at integer not null,
    who text not null,
    what text not null,
    detail text not null
) strict;
