#include "controller/wire/convert_collectives.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/core/utf8_prefix.h"
#include "controller/wire/convert.h"

namespace paceline {
namespace {

// Twice what python/paceline/_collectives.py writes.
constexpr int kMostGroups = 32;
constexpr int kMostRanks = 512;
constexpr int kMostCollectives = 32;
constexpr size_t kMostText = 200;

void Cut(std::string* text) {
  if (text->size() > kMostText) text->resize(Utf8Prefix(*text, kMostText).size());
}

template <typename Entries>
void KeepFirst(Entries* entries, int count) {
  if (entries->size() > count) entries->DeleteSubrange(count, entries->size() - count);
}

}  // namespace

void LimitCollectives(v1::RankCollectives* reported) {
  Cut(reported->mutable_unavailable());
  KeepFirst(reported->mutable_groups(), kMostGroups);
  for (v1::GroupCollectives& group : *reported->mutable_groups()) {
    Cut(group.mutable_name());
    Cut(group.mutable_description());
    if (group.ranks_size() > kMostRanks) group.clear_ranks();  // A part would be misleading.
    KeepFirst(group.mutable_collectives(), kMostCollectives);
    for (v1::Collective& collective : *group.mutable_collectives()) {
      Cut(collective.mutable_operation());
      Cut(collective.mutable_input());
    }
  }
}

RankCollectives FromProto(const v1::RankCollectives& reported) {
  RankCollectives out;
  out.wanted = reported.wanted();
  out.unavailable = reported.unavailable();
  for (const v1::GroupCollectives& group : reported.groups()) {
    GroupCollectives& added = out.groups.emplace_back();
    added.name = group.name();
    added.description = group.description();
    added.ranks.assign(group.ranks().begin(), group.ranks().end());
    added.last = std::max<int64_t>(group.last(), 0);
    added.newest = group.newest();
    for (const v1::Collective& collective : group.collectives()) {
      added.collectives.push_back(
          {collective.number(), collective.operation(), collective.input(), collective.finished()});
    }
    std::sort(added.collectives.begin(), added.collectives.end(),
              [](const Collective& a, const Collective& b) { return a.number < b.number; });
    if (!added.collectives.empty()) {
      added.last = std::max(added.last, added.collectives.back().number);
    }
  }
  return out;
}

void SetCollectives(const JobCollectives& collectives, v1::Job& job) {
  if (collectives.reported == absl::InfinitePast()) return;
  v1::JobCollectives& out = *job.mutable_collectives();
  *out.mutable_time() = ToProto(collectives.reported);
  for (const std::string& finding : collectives.findings) out.add_findings(finding);
}

}  // namespace paceline
