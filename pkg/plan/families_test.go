package plan_test

import _ "github.com/collectivex/collectivex/pkg/families" // definitions and cases need them
