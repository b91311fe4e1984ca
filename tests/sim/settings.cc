#include "tests/sim/settings.h"

namespace paceline::sim {
namespace {

Micros DrawRate(Random& random, Micros shortest, Micros longest) {
  const bool left_out = random.Chance(0.5);
  const Micros rate = random.Between(shortest, longest);
  return left_out ? kNever : rate;
}

double DrawProbability(Random& random, double highest) {
  const bool left_out = random.Chance(0.5);
  const double probability = random.Unit() * highest;
  return left_out ? 0 : probability;
}

}  // namespace

Settings DrawSettings(Random& random) {
  Settings s;
  s.nodes = static_cast<int>(random.Between(1, 5));
  s.jobs = static_cast<int>(random.Between(1, 3));
  s.encoded = random.Chance(0.1);
  s.quiet = random.Between(15, 60) * kSecond;
  s.end = s.quiet + 400 * kSecond;

  s.controller_crash = DrawRate(random, 3 * kSecond, 30 * kSecond);
  s.daemon_crash = DrawRate(random, 3 * kSecond, 30 * kSecond);
  s.host_crash = DrawRate(random, 8 * kSecond, 60 * kSecond);
  s.trainer_crash = DrawRate(random, 4 * kSecond, 40 * kSecond);
  s.trainer_freeze = DrawRate(random, 6 * kSecond, 60 * kSecond);
  s.host_freeze = DrawRate(random, 8 * kSecond, 60 * kSecond);
  s.session_break = DrawRate(random, 2 * kSecond, 20 * kSecond);
  s.control_cut = DrawRate(random, 5 * kSecond, 40 * kSecond);
  s.data_cut = DrawRate(random, 5 * kSecond, 60 * kSecond);
  s.wall_jump = DrawRate(random, 5 * kSecond, 60 * kSecond);
  s.sigterm = DrawRate(random, 20 * kSecond, 120 * kSecond);

  s.host_loses_disk = DrawProbability(random, 0.5);
  s.start_fails = DrawProbability(random, 0.1);
  s.store_fails = DrawProbability(random, 0.01);
  s.crash_at_commit = DrawProbability(random, 0.02);
  s.save_fails = DrawProbability(random, 0.2);
  s.task_fails = DrawProbability(random, 0.3);
  s.repeated_message = DrawProbability(random, 0.1);
  s.checkpoint_damage = DrawProbability(random, 0.05);

  s.control_delay = random.Between(1, 100) * kMilli;
  s.store_delay = random.Between(1, 100) * kMilli;
  s.disk_delay = random.Between(10, 2000) * kMilli;
  s.between_requests = random.Between(2, 15) * kSecond;
  return s;
}

}  // namespace paceline::sim
