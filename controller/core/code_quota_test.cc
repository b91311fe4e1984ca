#include "controller/core/code_quota.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline {
namespace {

const CodeLimits kLimits = {100, 40, absl::Minutes(10), absl::Minutes(1)};

std::string Reason(const std::vector<CodeUse>& uses, int64_t bytes, const std::string& sender) {
  const std::optional<Refusal> refusal = RefuseCode(uses, bytes, sender, kLimits);
  return refusal.has_value() ? refusal->message.substr(0, refusal->message.find('\'')) : "";
}

TEST(CodeQuotaTest, EachSubmitterHasAShareOfAll) {
  const absl::Time now = absl::UnixEpoch();
  std::vector<CodeUse> uses = {{30, {"ann"}, now, true}, {30, {"bob"}, now, false}};
  EXPECT_EQ(Reason(uses, 10, "ann"), "");
  EXPECT_EQ(Reason(uses, 11, "ann"), "your jobs");
  EXPECT_EQ(Reason(uses, 40, "eve"), "");
  EXPECT_EQ(Reason(uses, 41, "eve"), "your jobs");
  uses.push_back({30, {"ann", "cat"}, now, true});
  EXPECT_EQ(Reason(uses, 10, "eve"), "");
  EXPECT_EQ(Reason(uses, 11, "eve"), "all jobs");
  EXPECT_EQ(Reason(uses, 1, "ann"), "your jobs") << "what two have sent is both's";
}

TEST(CodeQuotaTest, WhatNoJobUsesIsForgottenInTime) {
  const absl::Time start = absl::UnixEpoch();
  const CodeUse whole = {1, {"ann"}, start, true};
  EXPECT_FALSE(IsOutdated(whole, start + absl::Minutes(10), kLimits));
  EXPECT_TRUE(IsOutdated(whole, start + absl::Minutes(10) + absl::Nanoseconds(1), kLimits));
  const CodeUse part = {1, {"ann"}, start, false};
  EXPECT_FALSE(IsOutdated(part, start + absl::Minutes(1), kLimits));
  EXPECT_TRUE(IsOutdated(part, start + absl::Minutes(1) + absl::Nanoseconds(1), kLimits));
}

}  // namespace
}  // namespace paceline
