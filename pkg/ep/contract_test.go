package ep_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/collectivex/collectivex/internal/resulttest"
	"github.com/collectivex/collectivex/pkg/ep"
	"github.com/collectivex/collectivex/pkg/family"
)

// Charts and summaries tell cases of two timing contracts apart.
func TestContractsAreNamed(t *testing.T) {
	for contract, named := range map[string]bool{ep.ContractLayout: false, ep.ContractCachedLayout: true} {
		c := resulttest.EPCase()
		c.Contract = contract
		d := resulttest.EP(c, resulttest.Attempt())
		f := family.Find(ep.Name)
		facets := f.Rows(d)[0].Lines[0].Facets
		require.Equal(t, named, strings.Contains(strings.Join(facets, "\n"), contract), facets)
		_, headline := f.Summary.Headline(d)
		require.Equal(t, named, headline.(*ep.Headline).Contract != "")
	}
}
