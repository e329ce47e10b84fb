SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.retain_api_keys (
    number bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    name bytea NOT NULL,
    hash bytea NOT NULL,
    app bytea,
    user_id bytea,
    scopes text NOT NULL COLLATE pg_catalog."C",
    created_us bigint NOT NULL,
    expires_us bigint,
    revoked_us bigint,
    last_used_us bigint
);
ALTER TABLE public.retain_api_keys ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.retain_api_keys_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.retain_artifacts (
    number bigint NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    session text NOT NULL COLLATE pg_catalog."C",
    name bytea NOT NULL,
    name_hash bytea NOT NULL,
    version bigint NOT NULL,
    create_time double precision NOT NULL,
    mime_type bytea,
    custom_metadata bytea NOT NULL,
    part bytea NOT NULL,
    data bytea
);
ALTER TABLE public.retain_artifacts ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.retain_artifacts_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.retain_erasures (
    count bigint NOT NULL
);
CREATE TABLE public.retain_events (
    log bigint NOT NULL,
    "position" bigint NOT NULL,
    event_id text NOT NULL COLLATE pg_catalog."C",
    invocation text NOT NULL COLLATE pg_catalog."C",
    "timestamp" double precision NOT NULL,
    body bytea NOT NULL
);
CREATE TABLE public.retain_logs (
    number bigint NOT NULL,
    purge_after_us bigint,
    app text COLLATE pg_catalog."C",
    user_id text COLLATE pg_catalog."C"
);
ALTER TABLE public.retain_logs ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.retain_logs_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.retain_memories (
    scope bigint NOT NULL,
    seq bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    kind smallint NOT NULL,
    origin smallint NOT NULL,
    tool bytea,
    session text COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    event_id bytea,
    author bytea,
    "timestamp" double precision NOT NULL,
    created_us bigint NOT NULL,
    updated_us bigint,
    expires_us bigint,
    body_hash bigint NOT NULL,
    custom_metadata bytea,
    content bytea NOT NULL,
    fixed_model bigint,
    fixed bytea,
    embedding_model bigint,
    embedding bytea
);
CREATE TABLE public.retain_memory_models (
    number bigint NOT NULL,
    id bytea NOT NULL,
    dims bigint NOT NULL
);
ALTER TABLE public.retain_memory_models ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.retain_memory_models_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.retain_memory_scopes (
    number bigint NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    revision bigint DEFAULT 0 NOT NULL,
    last_seq bigint DEFAULT 0 NOT NULL,
    floor bigint DEFAULT 0 NOT NULL,
    touched bigint DEFAULT 0 NOT NULL,
    tombstones bigint DEFAULT 0 NOT NULL,
    entries bigint DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    minute bigint DEFAULT 0 NOT NULL,
    in_minute bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE public.retain_memory_scopes ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.retain_memory_scopes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.retain_memory_tombstones (
    scope bigint NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE public.retain_memory_touched (
    scope bigint NOT NULL,
    revision bigint NOT NULL,
    seq bigint NOT NULL
);
CREATE TABLE public.retain_migrations (
    version bigint NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    oldest_program bigint DEFAULT 0 NOT NULL,
    program text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.retain_sessions (
    number bigint NOT NULL,
    app text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint DEFAULT 0 NOT NULL,
    "position" bigint NOT NULL,
    last_update double precision NOT NULL,
    create_time double precision NOT NULL,
    touched_us bigint NOT NULL,
    ttl_us bigint,
    lease_token bigint NOT NULL,
    lease_until_us bigint DEFAULT 0 NOT NULL,
    in_order boolean DEFAULT true NOT NULL,
    state_bytes bigint NOT NULL,
    origin_id text COLLATE pg_catalog."C",
    origin_position bigint,
    pending_work bigint DEFAULT 0 NOT NULL,
    log_bytes bigint DEFAULT 0 NOT NULL,
    sized_to bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.retain_shared_bytes (
    app text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    bytes bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.retain_shared_state (
    app text NOT NULL COLLATE pg_catalog."C",
    user_id text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    value bytea NOT NULL
)
WITH (fillfactor='80');
CREATE TABLE public.retain_state (
    log bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    value bytea
)
WITH (fillfactor='80');
CREATE TABLE public.retain_state_past (
    log bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    value bytea
);
CREATE TABLE public.retain_task_leases (
    task text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL COLLATE pg_catalog."C",
    until_us bigint NOT NULL
);
CREATE TABLE public.retain_tickets (
    place bigint NOT NULL,
    session bigint NOT NULL,
    ticket text NOT NULL COLLATE pg_catalog."C",
    until_us bigint NOT NULL
);
ALTER TABLE public.retain_tickets ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.retain_tickets_place_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO public.retain_api_keys OVERRIDING SYSTEM VALUE VALUES (1, 'a1350cc4a6864ff1', '\x70686f6e65', '\x2e09217b228fa2c660bfc9657b3170b228bd383f409bbfae8ee3af0228b15f0d', '\x617373697374616e74', '\x616461', 'sessions:read sessions:write memory:read memory:write memory:delete run', 1795132630055081, NULL, NULL, NULL);
INSERT INTO public.retain_artifacts OVERRIDING SYSTEM VALUE VALUES (1, 'assistant', 'ada', 'monday', '\x6e6f74652e747874', '\x59700155e034d16d95b0e6916ee23373f40422648201778db4b19ad28398ca6f', 0, 1795132629.830557, '\x746578742f706c61696e', '\x7b7d', '\x7b2274657874223a2274776f20706f7473227d', NULL);
INSERT INTO public.retain_artifacts OVERRIDING SYSTEM VALUE VALUES (2, 'assistant', 'ada', '', '\x757365723a616c6c2e747874', '\xdc6ee6e958fc70f1a751fe0f3cd48243e58d4e7a85409afa6c743eb3a0f904f1', 0, 1795132629.879407, '\x746578742f706c61696e', '\x7b7d', '\x7b2274657874223a22666f7220616c6c227d', NULL);
INSERT INTO public.retain_erasures VALUES (0);
INSERT INTO public.retain_events VALUES (1, 0, '', '', 1795132629.52828, '\x7b226170703a6c696d6974223a372c22757365723a6e616d65223a22416461222c226d6f6f64223a22676f6f64227d');
INSERT INTO public.retain_events VALUES (1, 1, 'e1', 'i1', 1763.5, '\x7b22636f6e74656e74223a7b227061727473223a5b7b2274657874223a224d79206661766f7269746520746561206973204561726c20477265792e204772c3bcc39f6520f09fab96227d5d2c22726f6c65223a2275736572227d2c22696e766f636174696f6e4964223a226931222c22617574686f72223a2275736572222c22616374696f6e73223a7b22737461746544656c7461223a7b226d6f6f64223a22626574746572222c22757365723a746561223a224561726c2047726579222c22626967223a31323334353637383930313233343536373839307d2c22617274696661637444656c7461223a7b7d2c2272657175657374656441757468436f6e66696773223a7b7d2c22726571756573746564546f6f6c436f6e6669726d6174696f6e73223a7b7d7d2c226964223a226531222c2274696d657374616d70223a313736332e357d');
INSERT INTO public.retain_events VALUES (1, 2, 'e2', 'i1', 1764, '\x7b22636f6e74656e74223a7b227061727473223a5b7b2274657874223a224e6f7465642e227d5d2c22726f6c65223a226d6f64656c227d2c22696e766f636174696f6e4964223a226931222c22617574686f72223a22617373697374616e74222c22616374696f6e73223a7b22737461746544656c7461223a7b226d6f6f64223a6e756c6c7d2c22617274696661637444656c7461223a7b7d2c2272657175657374656441757468436f6e66696773223a7b7d2c22726571756573746564546f6f6c436f6e6669726d6174696f6e73223a7b7d7d2c226964223a226532222c2274696d657374616d70223a313736342e302c22756e6b6e6f776e4669656c64223a7b2262223a312c2261223a312e307d7d');
INSERT INTO public.retain_events VALUES (1, 3, 'e3', 'i2', 1765, '\x7b22636f6e74656e74223a7b227061727473223a5b7b2274657874223a22466f7267657420746869732e227d5d2c22726f6c65223a2275736572227d2c22696e766f636174696f6e4964223a226932222c22617574686f72223a2275736572222c22616374696f6e73223a7b22737461746544656c7461223a7b226d6f6f64223a226f6464227d2c22617274696661637444656c7461223a7b7d2c2272657175657374656441757468436f6e66696773223a7b7d2c22726571756573746564546f6f6c436f6e6669726d6174696f6e73223a7b7d7d2c226964223a226533222c2274696d657374616d70223a313736352e307d');
INSERT INTO public.retain_events VALUES (1, 4, '429cc528-8b06-4a88-af4d-f1d4fd2167f5', 'e-caa48013-44f6-43b4-8be6-a963fc6fe2c1', 1795132629.721999, '\x7b22696e766f636174696f6e4964223a22652d63616134383031332d343466362d343362342d386265362d613936336663366665326331222c22617574686f72223a2275736572222c22616374696f6e73223a7b22737461746544656c7461223a7b226d6f6f64223a6e756c6c7d2c22617274696661637444656c7461223a7b7d2c2272657175657374656441757468436f6e66696773223a7b7d2c22726571756573746564546f6f6c436f6e6669726d6174696f6e73223a7b7d2c22726577696e644265666f7265496e766f636174696f6e4964223a226932227d2c226964223a2234323963633532382d386230362d346138382d616634642d663164346664323136376635222c2274696d657374616d70223a313739353133323632392e3732313939397d');
INSERT INTO public.retain_events VALUES (2, 0, '', '', 1795132629.52828, '\x7b226170703a6c696d6974223a372c22757365723a6e616d65223a22416461222c226d6f6f64223a22676f6f64227d');
INSERT INTO public.retain_events VALUES (2, 1, 'e1', 'i1', 1763.5, '\x7b22636f6e74656e74223a7b227061727473223a5b7b2274657874223a224d79206661766f7269746520746561206973204561726c20477265792e204772c3bcc39f6520f09fab96227d5d2c22726f6c65223a2275736572227d2c22696e766f636174696f6e4964223a226931222c22617574686f72223a2275736572222c22616374696f6e73223a7b22737461746544656c7461223a7b226d6f6f64223a22626574746572222c22757365723a746561223a224561726c2047726579222c22626967223a31323334353637383930313233343536373839307d2c22617274696661637444656c7461223a7b7d2c2272657175657374656441757468436f6e66696773223a7b7d2c22726571756573746564546f6f6c436f6e6669726d6174696f6e73223a7b7d7d2c226964223a226531222c2274696d657374616d70223a313736332e357d');
INSERT INTO public.retain_events VALUES (2, 2, 'e2', 'i1', 1764, '\x7b22636f6e74656e74223a7b227061727473223a5b7b2274657874223a224e6f7465642e227d5d2c22726f6c65223a226d6f64656c227d2c22696e766f636174696f6e4964223a226931222c22617574686f72223a22617373697374616e74222c22616374696f6e73223a7b22737461746544656c7461223a7b226d6f6f64223a6e756c6c7d2c22617274696661637444656c7461223a7b7d2c2272657175657374656441757468436f6e66696773223a7b7d2c22726571756573746564546f6f6c436f6e6669726d6174696f6e73223a7b7d7d2c226964223a226532222c2274696d657374616d70223a313736342e302c22756e6b6e6f776e4669656c64223a7b2262223a312c2261223a312e307d7d');
INSERT INTO public.retain_events VALUES (3, 0, '', '', 1795132629.785998, '\x7b7d');
INSERT INTO public.retain_logs OVERRIDING SYSTEM VALUE VALUES (1, NULL, NULL, NULL);
INSERT INTO public.retain_logs OVERRIDING SYSTEM VALUE VALUES (2, NULL, NULL, NULL);
INSERT INTO public.retain_logs OVERRIDING SYSTEM VALUE VALUES (3, NULL, NULL, NULL);
INSERT INTO public.retain_memories VALUES (1, 1, 'e1', 1, 0, 0, NULL, 'monday', 1, NULL, '\x75736572', 1763.5, 1795132629914988, NULL, NULL, -6542396448278305702, NULL, '\x7b227061727473223a5b7b2274657874223a224d79206661766f7269746520746561206973204561726c20477265792e204772c3bcc39f6520f09fab96227d5d2c22726f6c65223a2275736572227d', 1, '\xde06321e4d16f48ae0c453dbfc16dabe0dd911ceba26b3fc26f4f358202404ff497fe1073c3a1017cd0cee192e1d0efb0bb91310061ee7fe02caedede0dd08f0ff2eedb9ff0ee2c5d8e50d1d08c8f321e90a0dffe32a2ade4b0b3017eaeef7e8f902120fe500f7dbf3f1f0ea1be3ed16070920eada07fef3dff6ece1f8ed15e7ea1a23f7d7243603e2e12b154525fdffe21d0d12f6f025191421091e37faf506e2f6ffed1206f424eb4bcf051cfd07330b104d16f70b09f000171202040307e30a1e19fd37efe9e30e411218e0eee51a161f03f9ecf4f80908ff230224ffd8ffec1ef32f1703de35f4ff150ee40207f40618f101f30deaee0afdf32ef20402f9', NULL, NULL);
INSERT INTO public.retain_memories VALUES (1, 2, 'e2', 1, 0, 1, NULL, 'monday', 2, NULL, '\x617373697374616e74', 1764, 1795132629914988, NULL, NULL, -2398919862522064889, NULL, '\x7b227061727473223a5b7b2274657874223a224e6f7465642e227d5d2c22726f6c65223a226d6f64656c227d', 1, '\xa181da94ed46edd5062e511441da35e91dfb1be025ffe6723dd32b3e0016e905906c6028232425d5ebb72ff8d010fd075cc671ffd31afc3ad0920689e3451131de5f3def4c0fead80b19310911cfae1133319705155d4522b50b1208e42dce0cf0e3e0d4f2f0402ee3102b3def04c01df1e70cfff21cfbfedc16d0f51b0de5f8fae7e0e2fcefdccc39ebfdce3c46fdcfbf12c507edea03d42640070115dbf6ca2931fbbff210195a3818ef20ccbe1fffe5e127efd909e539fd00f021e8290916f10ef00c0c039aed07e7b7000e17dabfe7fa0c0df0ed25d8bedf05d712d4bfeedf0809e3fb1504f2e40e0918f41509d900f5053404180de8dc1de1fbddd90d0f', NULL, NULL);
INSERT INTO public.retain_memories VALUES (1, 3, 'e3', 1, 0, 0, NULL, 'monday', 3, NULL, '\x75736572', 1765, 1795132629914988, NULL, NULL, 2948782681903237038, NULL, '\x7b227061727473223a5b7b2274657874223a22466f7267657420746869732e227d5d2c22726f6c65223a2275736572227d', 1, '\x81c1fb1142cbc5c82330e726f3ac1addf205f4d5590454083fcc1f752cdcdd22f318541ef02bc3dbfc0e0ee00f52090917010ae4064af60203d0c1d6feffb807ca05f9d8f90dff0215d22e2beaf8e3fec7eb22055e77b73d0f3ef4ff2217ea1efcca1bf2271e5c32d3ea07242d541019dc3d0f08fcebdae9da060a070818c5f63bfd0ee3ffe7efd237d310f4ff18080315500105f80b081a10ff26b42df108fffff2c5c105dd0ce900e0dd0539c93cfde8011003d707c2f3c721162bf2fc23f924e4e6fbd8e910081206f5d5e10c1b0813ed1a00dd1f120ad10021110207e3d92400ef03f7ebd00ee5fbfe0e01fde10801fa0416f7150af5d2f61109ebe519f6', NULL, NULL);
INSERT INTO public.retain_memories VALUES (1, 4, 'direct', 2, 1, 3, NULL, NULL, 0, NULL, NULL, 1795132629.980468, 1795132629981616, NULL, NULL, -1916702747926645288, NULL, '\x7b227061727473223a5b7b2274657874223a22416461206c6976657320696e204f736c6f2e227d5d2c22726f6c65223a2275736572227d', 1, '\x9d52b33458b4ec0dcaf0be3ecbd2f081b9ddf5d5f4ed51d8dcec29752b59e2c900df1f3f5d04d0b7ea10e0330be6630ec1f22b09d6d90bddf70df94b2a3cd4bb331906e2f0e1a3e12e16f3e3ecef1d27e114ec23e4f51bf31af812ca24bffaf9f32a38c6101816f701d909fdf6d0fec5b8001a00fc16e9ff26f310dc16e307e718f2d5296429efea2f06d014e903e5f3f410f20213c71e0e091115eb1900f2040bfdfdf0f81619f915f00de7fd1bf2faecf219f0f22b200ff70f11f4d600fcf80911fc1708fd0816e909d924ebe8f111ead32b14e6e9f9f0f910fb200ee8ff2bf201fafefd1fdf0600f10df9fc02f70fd802f8efff1d220d2408f4071e0b1afa', NULL, NULL);
INSERT INTO public.retain_memory_models OVERRIDING SYSTEM VALUE VALUES (1, '\x616c6c2d4d696e694c4d2d4c362d76322f7374617469632d3235362f34323535646664363335633264383939', 256);
INSERT INTO public.retain_memory_scopes OVERRIDING SYSTEM VALUE VALUES (1, 'assistant', 'ada', 3, 5, 0, 1, 1, 4, 244, 29918877, 5);
INSERT INTO public.retain_memory_tombstones VALUES (1, '\x87fbdf7db7c9f30b6f21ad7d1e460840');
INSERT INTO public.retain_memory_touched VALUES (1, 3, 5);
INSERT INTO public.retain_migrations VALUES (1, 'create-tables', '97ad2e7329892178251389f65d4dd8a1da71ebc447b0ec98505c418ad7ec46f1', 0, '');
INSERT INTO public.retain_migrations VALUES (2, 'record-programs', 'e09c267714420499b3d2da6d147a94dab52d00e3bde1af0fa9fe1a4c4b941166', 1, '0.1.0');
INSERT INTO public.retain_migrations VALUES (3, 'record-pending-work', 'cc275981555cd733f4de6d6e21d3add145db0a1197da81777310940cba104a6d', 2, '0.1.0');
INSERT INTO public.retain_sessions VALUES (1, 'assistant', 'ada', 'monday', 3, 4, 1795132629.721999, 1795132629.52828, 1795132629725435, NULL, 4294967298, 0, true, 31, NULL, NULL, 0, 1137, 4);
INSERT INTO public.retain_sessions VALUES (2, 'assistant', 'ada', 'tuesday', 0, 2, 1795132629.760005, 1795132629.760005, 1795132629762453, NULL, 8589934592, 0, true, 31, 'monday', 2, 0, 599, 2);
INSERT INTO public.retain_sessions VALUES (3, 'assistant', 'ada', 'kept-a-year', 0, 0, 1795132629.785998, 1795132629.785998, 1795132629787324, 315360000000000, 12884901888, 0, true, 0, NULL, NULL, 0, 0, 0);
INSERT INTO public.retain_shared_bytes VALUES ('assistant', '', 6);
INSERT INTO public.retain_shared_bytes VALUES ('assistant', 'ada', 23);
INSERT INTO public.retain_shared_state VALUES ('assistant', '', 'limit', '\x37');
INSERT INTO public.retain_shared_state VALUES ('assistant', 'ada', 'name', '\x2241646122');
INSERT INTO public.retain_shared_state VALUES ('assistant', 'ada', 'tea', '\x224561726c204772657922');
INSERT INTO public.retain_state VALUES (1, 'big', 1, '\x3132333435363738393031323334353637383930');
INSERT INTO public.retain_state VALUES (1, 'mood', 4, '\x6e756c6c');
INSERT INTO public.retain_state VALUES (2, 'big', 1, '\x3132333435363738393031323334353637383930');
INSERT INTO public.retain_state VALUES (2, 'mood', 2, '\x6e756c6c');
INSERT INTO public.retain_state_past VALUES (1, 'mood', 0, '\x22676f6f6422');
INSERT INTO public.retain_state_past VALUES (1, 'mood', 1, '\x2262657474657222');
INSERT INTO public.retain_state_past VALUES (1, 'mood', 2, '\x6e756c6c');
INSERT INTO public.retain_state_past VALUES (1, 'mood', 3, '\x226f646422');
INSERT INTO public.retain_state_past VALUES (2, 'mood', 0, '\x22676f6f6422');
INSERT INTO public.retain_state_past VALUES (2, 'mood', 1, '\x2262657474657222');
SELECT pg_catalog.setval('public.retain_api_keys_number_seq', 1, true);
SELECT pg_catalog.setval('public.retain_artifacts_number_seq', 2, true);
SELECT pg_catalog.setval('public.retain_logs_number_seq', 3, true);
SELECT pg_catalog.setval('public.retain_memory_models_number_seq', 1, true);
SELECT pg_catalog.setval('public.retain_memory_scopes_number_seq', 1, true);
SELECT pg_catalog.setval('public.retain_tickets_place_seq', 1, false);
ALTER TABLE ONLY public.retain_api_keys
    ADD CONSTRAINT retain_api_keys_id_key UNIQUE (id);
ALTER TABLE ONLY public.retain_api_keys
    ADD CONSTRAINT retain_api_keys_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.retain_artifacts
    ADD CONSTRAINT retain_artifacts_app_user_id_session_name_hash_version_key UNIQUE (app, user_id, session, name_hash, version);
ALTER TABLE ONLY public.retain_artifacts
    ADD CONSTRAINT retain_artifacts_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.retain_events
    ADD CONSTRAINT retain_events_log_event_id_key UNIQUE (log, event_id);
ALTER TABLE ONLY public.retain_events
    ADD CONSTRAINT retain_events_pkey PRIMARY KEY (log, "position");
ALTER TABLE ONLY public.retain_logs
    ADD CONSTRAINT retain_logs_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.retain_memories
    ADD CONSTRAINT retain_memories_pkey PRIMARY KEY (scope, seq);
ALTER TABLE ONLY public.retain_memory_models
    ADD CONSTRAINT retain_memory_models_id_dims_key UNIQUE (id, dims);
ALTER TABLE ONLY public.retain_memory_models
    ADD CONSTRAINT retain_memory_models_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.retain_memory_scopes
    ADD CONSTRAINT retain_memory_scopes_app_user_id_key UNIQUE (app, user_id);
ALTER TABLE ONLY public.retain_memory_scopes
    ADD CONSTRAINT retain_memory_scopes_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.retain_memory_tombstones
    ADD CONSTRAINT retain_memory_tombstones_pkey PRIMARY KEY (scope, hash);
ALTER TABLE ONLY public.retain_memory_touched
    ADD CONSTRAINT retain_memory_touched_pkey PRIMARY KEY (scope, revision, seq);
ALTER TABLE ONLY public.retain_migrations
    ADD CONSTRAINT retain_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.retain_sessions
    ADD CONSTRAINT retain_sessions_app_user_id_id_key UNIQUE (app, user_id, id);
ALTER TABLE ONLY public.retain_sessions
    ADD CONSTRAINT retain_sessions_pkey PRIMARY KEY (number);
ALTER TABLE ONLY public.retain_shared_bytes
    ADD CONSTRAINT retain_shared_bytes_pkey PRIMARY KEY (app, user_id);
ALTER TABLE ONLY public.retain_shared_state
    ADD CONSTRAINT retain_shared_state_pkey PRIMARY KEY (app, user_id, key);
ALTER TABLE ONLY public.retain_state_past
    ADD CONSTRAINT retain_state_past_pkey PRIMARY KEY (log, key, "position");
ALTER TABLE ONLY public.retain_state
    ADD CONSTRAINT retain_state_pkey PRIMARY KEY (log, key);
ALTER TABLE ONLY public.retain_task_leases
    ADD CONSTRAINT retain_task_leases_pkey PRIMARY KEY (task);
ALTER TABLE ONLY public.retain_tickets
    ADD CONSTRAINT retain_tickets_pkey PRIMARY KEY (place);
ALTER TABLE ONLY public.retain_tickets
    ADD CONSTRAINT retain_tickets_session_ticket_key UNIQUE (session, ticket);
CREATE INDEX retain_logs_of_drafts ON public.retain_logs USING btree (app, user_id) WHERE (app IS NOT NULL);
CREATE INDEX retain_logs_to_purge ON public.retain_logs USING btree (purge_after_us) WHERE (purge_after_us IS NOT NULL);
CREATE INDEX retain_memories_by_id ON public.retain_memories USING btree (scope, id);
CREATE INDEX retain_memories_to_expire ON public.retain_memories USING btree (expires_us) WHERE (expires_us IS NOT NULL);
CREATE INDEX retain_sessions_that_expire ON public.retain_sessions USING btree (number) WHERE (ttl_us IS NOT NULL);
ALTER TABLE ONLY public.retain_tickets
    ADD CONSTRAINT retain_tickets_session_fkey FOREIGN KEY (session) REFERENCES public.retain_sessions(number) ON DELETE CASCADE;
