// Compares the model with the ranks' own state machines (simulated_ranks.h) on other draws of the
// same stalls, so that it is tested as a prediction.
#include "slipstream/testing/simulated_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/time/time.h"
#include "controller/core/stragglers/ladder/testing/ladder_histories.h"
#include "controller/core/stragglers/slipstream/slipstream_model.h"

namespace paceline {
namespace {

using Mode = SlipstreamMode;

struct Case {
  int ranks = 32;
  Mode mode = Mode::kFree;
  double stall_share = 0.02;
  double stall_s = 1;
  double freezing_share = 0;
  WindowBounds bounds;
  double seconds = 30;  // Of simulated time.
};

constexpr double kStepS = 0.055;
constexpr double kJitter = 0.03;
// Drawn from 0 on, so half of it on average; but a collective waits for its last message.
constexpr absl::Duration kLongestMessage = absl::Microseconds(500);
constexpr absl::Duration kLongestPass = absl::Microseconds(250);

double Simulated(const Case& c) {
  SimulatedRanks::Options options;
  options.ranks = c.ranks;
  options.mode = c.mode;
  options.window = c.bounds;
  options.step = absl::Seconds(kStepS);
  options.jitter = kJitter;
  options.stall_probability = c.stall_share;
  options.stall = absl::Seconds(c.stall_s);
  options.freezing_share = c.freezing_share;
  options.first_step = int64_t{1} << 20;  // Windows are short in a young training.
  options.target_steps = int64_t{1} << 40;
  options.longest_message = kLongestMessage;
  options.longest_pass = kLongestPass;
  SimulatedRanks job(options);
  const auto done = [&] {
    const RankSteps& total = job.latest().total;
    return static_cast<double>(total.steps()) + static_cast<double>(total.remainder()) / c.ranks;
  };
  job.Run(absl::Seconds(c.seconds / 4));  // Lets it settle.
  const double before = done();
  job.Run(absl::Seconds(c.seconds));
  EXPECT_EQ(job.error(), "");
  return c.seconds / (done() - before);
}

double Predicted(const Case& c) {
  DrawnTimes wish = Stalling(c.ranks, c.stall_share, c.stall_s);
  wish.base_s = kStepS;
  wish.jitter = kJitter;
  wish.seed = 12;
  wish.steps = (1 << 17) / c.ranks;
  const double message_s = absl::ToDoubleSeconds(kLongestMessage);
  return PredictSlipstream(OwnSteps(Draw(wish), c.freezing_share),
                           {message_s, message_s, absl::ToDoubleSeconds(kLongestPass)}, c.mode,
                           c.bounds)
      .step_s;
}

void ExpectAsPredicted(const Case& c) {
  EXPECT_NEAR(Predicted(c) / Simulated(c), 1, 0.1)
      << c.ranks << " ranks, mode " << static_cast<int>(c.mode) << ", stalls " << c.stall_share
      << " of " << c.stall_s << " s, freezing " << c.freezing_share;
}

TEST(SimulatedRanksTest, EachModeWithRandomStalls) {
  for (const Mode mode : {Mode::kFree, Mode::kDrop, Mode::kSync, Mode::kPause}) {
    for (const double share : {0.02, 0.05, 0.3}) {
      Case c;
      c.mode = mode;
      c.stall_share = share;
      // With this share about half of the ranks stall when they are to pause, so that it is chance
      // whether most ranks wait and windows grow.
      if (mode == Mode::kPause && share == 0.3) c.stall_share = 0.5;
      // If all wait for one, fewer steps are made, and they differ more.
      if (mode == Mode::kSync || mode == Mode::kPause) c.seconds = 200;
      ExpectAsPredicted(c);
    }
  }
}

TEST(SimulatedRanksTest, LongAndShortStalls) {
  for (const Mode mode : {Mode::kFree, Mode::kDrop}) {
    Case c;
    c.mode = mode;
    c.stall_share = 0.1;
    c.stall_s = 0.1;
    ExpectAsPredicted(c);
    c.stall_share = 0.002;
    c.stall_s = 5;
    c.seconds = 120;
    ExpectAsPredicted(c);
  }
}

TEST(SimulatedRanksTest, StallsThatFreezeTheCommunication) {
  for (const Mode mode : {Mode::kFree, Mode::kDrop, Mode::kPause}) {
    for (const double share : {0.3, 1.0}) {
      Case c;
      c.mode = mode;
      c.freezing_share = share;
      c.seconds = 200;
      ExpectAsPredicted(c);
    }
  }
}

TEST(SimulatedRanksTest, FewAndManyRanks) {
  for (const int ranks : {8, 256, 1024}) {
    for (const Mode mode : {Mode::kFree, Mode::kDrop}) {
      Case c;
      c.ranks = ranks;
      c.mode = mode;
      c.seconds = std::max(3, 500 / ranks);
      ExpectAsPredicted(c);
    }
  }
}

}  // namespace
}  // namespace paceline
