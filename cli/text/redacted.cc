#include "cli/text/redacted.h"

#include "re2/re2.h"

namespace paceline {
namespace {

struct Rule {
  const char* pattern;
  const char* replacement;
};

// The order matters: text that a rule has replaced is not matched by later rules.
constexpr Rule kRules[] = {
    {"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.)*?-----END [A-Z ]*PRIVATE KEY-----", "[removed]"},
    {R"re((?i)\b((?:bearer|authorization:?\s+basic)\s+)[A-Za-z0-9._~+/=-]{8,})re",
     R"(\1[removed])"},
    {R"re(([A-Za-z][A-Za-z0-9+.-]*://)[^/\s:@"']*:[^/\s@"']+@)re", R"(\1[removed]@)"},
    {R"re(\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)re", "[removed]"},
    {R"re(\b(?:gh[pousr]_|github_pat_|hf_|sk-)[A-Za-z0-9_-]{16,})re", "[removed]"},
    {R"re(\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)re", "[removed]"},
    {R"re((?i)((?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|)re"
     R"re(private[_-]?key|secret[_-]?key|credential)s?\\?["']?\s*[:=]\s*\\?["']?))re"
     R"re([^\s"',;}\\\[][^\s"',;}\\]*)re",
     R"(\1[removed])"},
};

}  // namespace

std::string Redacted(absl::string_view text) {
  std::string out(text);
  for (const Rule& rule : kRules) {
    RE2::GlobalReplace(&out, RE2(rule.pattern), rule.replacement);
  }
  return out;
}

}  // namespace paceline
