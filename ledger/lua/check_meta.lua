#!lua flags=allow-oom
-- check_meta: write schema version and number of partitions when absent, and say what stands there.
-- KEYS  1 meta (hash)
-- ARGV  1 schema version   2 number of partitions
-- REPLY {schema version, number of partitions}
-- CRASH before: nothing is written.  after: a repeat reads the same.
redis.call('HSETNX', KEYS[1], 'schema', ARGV[1])
redis.call('HSETNX', KEYS[1], 'partitions', ARGV[2])
return redis.call('HMGET', KEYS[1], 'schema', 'partitions')
