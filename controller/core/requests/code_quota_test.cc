#include "controller/core/requests/code_quota.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const CodeLimits kLimits = {100, 40, absl::Minutes(10), absl::Minutes(1), absl::Seconds(10)};
const absl::Time kStart = absl::UnixEpoch();

CodeUse Used(int64_t bytes, const std::set<std::string>& senders) {
  return {bytes, senders, kStart, /*complete=*/true, /*used=*/true};
}

std::string Reason(const std::vector<CodeUse>& uses, int64_t bytes, const std::string& sender) {
  const CodeRoom room = MakeCodeRoom(uses, bytes, sender, kStart + absl::Hours(1), kLimits);
  EXPECT_THAT(room.forgotten, IsEmpty());
  if (!room.refusal.has_value()) return "";
  return room.refusal->message.substr(0, room.refusal->message.find('\''));
}

TEST(CodeQuotaTest, EachSubmitterHasAShareOfAll) {
  std::vector<CodeUse> uses = {Used(30, {"ann"}), {30, {"bob"}, kStart, /*complete=*/false}};
  EXPECT_EQ(Reason(uses, 10, "ann"), "");
  EXPECT_EQ(Reason(uses, 11, "ann"), "your jobs");
  EXPECT_EQ(Reason(uses, 40, "eve"), "");
  EXPECT_EQ(Reason(uses, 41, "eve"), "your jobs");
  uses.push_back(Used(30, {"ann", "cat"}));
  EXPECT_EQ(Reason(uses, 10, "eve"), "");
  EXPECT_EQ(Reason(uses, 11, "eve"), "all jobs");
  EXPECT_EQ(Reason(uses, 1, "ann"), "your jobs") << "what two have sent is both's";
}

TEST(CodeQuotaTest, WhatRestsLongestMakesRoom) {
  const auto rests = [](int64_t bytes, const char* sender, int seconds) {
    return CodeUse{bytes, {sender}, kStart + absl::Seconds(seconds), /*complete=*/true};
  };
  const std::vector<CodeUse> uses = {rests(10, "ann", 2), rests(30, "bob", 0), Used(10, {"ann"}),
                                     rests(10, "ann", 1), rests(10, "ann", 50)};
  const auto forgotten = [&](int64_t bytes, const char* sender) {
    const CodeRoom room = MakeCodeRoom(uses, bytes, sender, kStart + absl::Minutes(1), kLimits);
    EXPECT_FALSE(room.refusal.has_value()) << room.refusal->message;
    return room.forgotten;
  };
  EXPECT_THAT(forgotten(30, "eve"), IsEmpty()) << "there is room";
  EXPECT_THAT(forgotten(10, "ann"), ElementsAre(3)) << "her own, the oldest first";
  EXPECT_THAT(forgotten(20, "ann"), ElementsAre(3, 0));
  EXPECT_THAT(forgotten(31, "eve"), ElementsAre(1)) << "of all, the oldest";
  // Both limits are exceeded: her own oldest goes first, then the oldest of all.
  const std::vector<CodeUse> full = {rests(30, "bob", 0), rests(30, "ann", 1), Used(30, {"eve"})};
  EXPECT_THAT(
      MakeCodeRoom(full, 40, "ann", kStart + absl::Minutes(1), {95, 40, {}, {}, absl::Seconds(10)})
          .forgotten,
      ElementsAre(1, 0));
  const CodeRoom none = MakeCodeRoom(uses, 21, "ann", kStart + absl::Minutes(1), kLimits);
  EXPECT_TRUE(none.refusal.has_value()) << "what came ten seconds ago may have its job on its way";
  EXPECT_THAT(none.forgotten, IsEmpty());
}

TEST(CodeQuotaTest, WhatNoJobUsesIsForgottenInTime) {
  const absl::Time start = kStart;
  const CodeUse whole = {1, {"ann"}, start, true};
  EXPECT_FALSE(IsOutdated(whole, start + absl::Minutes(10), kLimits));
  EXPECT_TRUE(IsOutdated(whole, start + absl::Minutes(10) + absl::Nanoseconds(1), kLimits));
  const CodeUse part = {1, {"ann"}, start, false};
  EXPECT_FALSE(IsOutdated(part, start + absl::Minutes(1), kLimits));
  EXPECT_TRUE(IsOutdated(part, start + absl::Minutes(1) + absl::Nanoseconds(1), kLimits));
}

}  // namespace
}  // namespace paceline
