-- Plain names inside the bodies. A body is JSON without spaces, and a quote inside one of its texts is
-- escaped (`\"`), so `"name":` is always a key and never a part of a text.

update instances set body =
    replace(replace(replace(body, '"wish":', '"removal":'), '"rank":', '"urgency":'),
            '"last_word":', '"setup_report":');

update events set body =
    replace(replace(body, '"what":{"wished":{"rank":', '"what":{"removal_requested":{"urgency":'),
            ',"words":', ',"why":')
 where body like '%"what":{"wished":%';

update events set body =
    replace(replace(body, '"what":{"refused":{"ask":', '"what":{"refused":{"request":'),
            '"why":"leaving"}', '"why":"terminating"}')
 where body like '%"what":{"refused":%';

update events set body = replace(body, '"what":{"said":', '"what":{"setup_reported":')
 where body like '%"what":{"said":%';
update events set body = replace(body, '"what":{"heard":', '"what":{"job_reported":')
 where body like '%"what":{"heard":%';
update events set body = replace(body, '"what":{"nobody":', '"what":{"unserved":')
 where body like '%"what":{"nobody":%';
update events set body = replace(body, '"what":{"doubt":', '"what":{"sighting_unknown":')
 where body like '%"what":{"doubt":%';

-- Who leads says which schema it writes. The column has no default: an older program that stands by
-- while this step is made cannot take the lease any more.
create table holders_with_schema (
    epoch integer primary key,
    holder text not null unique,
    schema integer not null,
    taken_at integer not null
) strict;
insert into holders_with_schema (epoch, holder, schema, taken_at)
    select epoch, holder, 1, taken_at from holders;
drop table holders;
alter table holders_with_schema rename to holders;
