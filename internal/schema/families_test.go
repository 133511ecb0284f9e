package schema_test

import _ "github.com/collectivex/collectivex/pkg/families" // definitions and documents need them
