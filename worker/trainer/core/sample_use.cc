#include "worker/trainer/core/sample_use.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <list>
#include <map>
#include <tuple>
#include <utility>

namespace paceline {
namespace {

// How a generation begins.
struct Beginning {
  int64_t parent = 0;              // As the member says that knows of the newest.
  std::map<int, int64_t> of_rank;  // The steps from which on its ranks train.
  int64_t latest = 0;

  int64_t Of(int rank) const {
    const auto found = of_rank.find(rank);
    return found == of_rank.end() ? latest : found->second;
  }
};

// The newest generation, its parent, the parent's, and so on. A generation without a record is
// passed over.
std::map<int64_t, Beginning> LineOf(const std::vector<SampleRun>& runs) {
  std::map<int64_t, Beginning> all;
  for (const SampleRun& run : runs) {
    Beginning& beginning = all[run.generation];
    beginning.parent = std::max(beginning.parent, std::min(run.parent, run.generation - 1));
    beginning.of_rank[run.rank] = run.since;
    beginning.latest = std::max(beginning.latest, run.since);
  }
  std::map<int64_t, Beginning> line;
  for (auto at = all.end(); at != all.begin();) {
    --at;
    line.insert(*at);
    at = at->second.parent > 0 ? all.upper_bound(at->second.parent) : all.begin();
  }
  return line;
}

// A run on its way through its steps.
struct Cursor {
  const SampleRun* run;
  int64_t done;
  Sampler sampler;  // Behind the steps done.

  explicit Cursor(const SampleRun& of) : run(&of), done(0), sampler(SamplingOf(of, 0), of.begin) {}
};

void Advance(Cursor* cursor) {
  ++cursor->done;
  if (cursor->run->samples == 0) return;
  for (int32_t pass = 0; pass < cursor->run->passes; ++pass) cursor->sampler.Skip();
}

bool IsSameMixture(const SampleRun& a, const SampleRun& b) {
  if (a.mixture == nullptr || b.mixture == nullptr) return a.mixture == b.mixture;
  return *a.mixture == *b.mixture;
}

// Whether the run divides the same data in the same way, at this position.
bool DividesAs(const SampleRun& run, const DataPosition& position, const SampleRun& as) {
  return run.world_size == as.world_size && run.batch == as.batch && run.passes == as.passes &&
         run.samples == as.samples && run.seed == as.seed && run.shuffle == as.shuffle &&
         run.drop_last == as.drop_last && IsSameMixture(run, as) &&
         (run.samples == 0 || position == as.begin);
}

// A way of dividing the data in one step, and which ranks have made it.
struct Division {
  SampleRun as;
  std::vector<bool> made;
  int count = 0;

  void Add(const SampleRun& run) {
    for (int rank = run.with_first; rank < run.with_first + run.with_size; ++rank) {
      const auto at = static_cast<size_t>(rank);
      if (!made[at]) ++count;
      made[at] = true;
    }
  }
};

std::vector<Division> DivisionsOf(int64_t step, const std::list<Cursor>& cursors) {
  std::vector<Division> divisions;
  for (const Cursor& cursor : cursors) {
    const SampleRun& run = *cursor.run;
    const DataPosition position = cursor.sampler.position();
    auto same = std::find_if(divisions.begin(), divisions.end(),
                             [&](const Division& one) { return DividesAs(run, position, one.as); });
    if (same == divisions.end()) {
      Division& added = divisions.emplace_back();
      added.as = run;
      added.as.begin = position;
      added.as.first_step = step;
      added.as.steps = 1;
      added.made.resize(static_cast<size_t>(run.world_size));
      same = divisions.end() - 1;
    }
    same->Add(run);
  }
  return divisions;
}

// Ranks that divide the data in another way than most have joined later: theirs is no place where
// others are missing.
void CallFor(int64_t step, const std::list<Cursor>& cursors,
             const std::function<void(const StepUse& use)>& each) {
  const std::vector<Division> divisions = DivisionsOf(step, cursors);
  const auto most =
      std::max_element(divisions.begin(), divisions.end(),
                       [](const Division& a, const Division& b) { return a.count < b.count; });
  for (auto one = divisions.begin(); one != divisions.end(); ++one) {
    StepUse use;
    use.step = step;
    use.as = one->as;
    for (int rank = 0; rank < one->as.world_size; ++rank) {
      if (one->made[static_cast<size_t>(rank)]) {
        use.ranks.push_back(rank);
      } else if (one == most) {
        use.missing.push_back(rank);
      }
    }
    each(use);
  }
}

// What gives a place in an epoch's order its meaning.
using Order =
    std::tuple<int, int64_t, int64_t, uint64_t, bool>;  // Source, epoch, samples, seed, shuffle.

// Places of an epoch's order: begin to end - 1.
struct Part {
  Order order;
  int64_t begin = 0;
  int64_t end = 0;
};

// Calls `each` with what all ranks take in each pass.
void ForEachPass(const StepUse& use, const std::function<void(const Sampler::Pass& pass)>& each) {
  Sampler sampler(SamplingOf(use.as, 0), use.as.begin);
  for (int32_t pass = 0; pass < use.as.passes; ++pass) each(sampler.Skip());
}

// What `count` positions of the data take, from `begin` on. Those of a mixture are a part of each
// source, which may be the end of one of its epochs, whole ones, and the beginning of another.
std::vector<Part> PartsOf(const SampleRun& as, const DataPosition& begin, int64_t count) {
  const int64_t end = begin.offset + count;
  std::vector<Part> parts;
  if (as.mixture == nullptr) {
    const Order order(0, begin.epoch, as.samples, as.seed, as.shuffle);
    parts.push_back({order, begin.offset, end});
    return parts;
  }
  const Mixture& mixture = *as.mixture;
  const std::vector<int64_t> before = mixture.TakenBefore(begin.offset, as.seed);
  const std::vector<int64_t> behind = mixture.TakenBefore(end, as.seed);
  for (size_t i = 0; i < before.size(); ++i) {
    const int source = static_cast<int>(i);
    const int64_t samples = mixture.sources()[i].samples;
    const uint64_t seed = Mixture::SeedOf(source, as.seed);
    for (int64_t number = before[i]; number < behind[i];) {
      const int64_t epoch = number / samples;
      const int64_t next = std::min(behind[i], (epoch + 1) * samples);
      const Order order(source, epoch, samples, seed, as.shuffle);
      parts.push_back({order, number - epoch * samples, next - epoch * samples});
      number = next;
    }
  }
  return parts;
}

// The position, from `begin` on, that takes this place of an epoch. Requires: there is one.
int64_t PositionOf(const SampleRun& as, const Order& order, int64_t place, int64_t begin) {
  if (as.mixture == nullptr) return place;
  const Mixture::Taken wanted = {std::get<0>(order),
                                 std::get<1>(order) * std::get<2>(order) + place};
  for (int64_t block = begin / Mixture::kBlock;; ++block) {
    const auto taken = as.mixture->Block(block, as.seed);
    const auto found = std::find(taken.begin(), taken.end(), wanted);
    if (found != taken.end()) return block * Mixture::kBlock + (found - taken.begin());
  }
}

// Parts of an epoch's order that were used.
class Spans {
 public:
  void Add(int64_t begin, int64_t end, int64_t step) {
    if (edges_.empty()) first_step_ = step;
    last_step_ = step;
    // Mostly the next part, so that an epoch is a few spans.
    if (!edges_.empty() && edges_.back().second == -1 && edges_.back().first == begin) {
      edges_.back().first = end;
      return;
    }
    edges_.emplace_back(begin, 1);
    edges_.emplace_back(end, -1);
  }

  EpochUse Use(const Order& order) const {
    EpochUse use;
    use.source = std::get<0>(order);
    use.epoch = std::get<1>(order);
    use.samples = std::get<2>(order);
    use.first_step = first_step_;
    use.last_step = last_step_;
    std::vector<std::pair<int64_t, int>> edges = edges_;
    std::sort(edges.begin(), edges.end());
    int64_t from = 0;
    int depth = 0;
    for (const auto& [at, change] : edges) {
      if (depth == 1) use.once += at - from;
      if (depth > 1) use.again += at - from;
      depth += change;
      from = at;
    }
    use.never = use.samples - use.once - use.again;
    return use;
  }

 private:
  std::vector<std::pair<int64_t, int>> edges_;  // Offset, and 1 where a part begins, -1 at its end.
  int64_t first_step_ = 0;
  int64_t last_step_ = 0;
};

void AddTo(std::map<Order, Spans>* epochs, const StepUse& use) {
  const bool whole = static_cast<int32_t>(use.ranks.size()) == use.as.world_size;
  ForEachPass(use, [&](const Sampler::Pass& pass) {
    const DataPosition& begin = pass.begin;
    const auto add = [&](int64_t ahead, int64_t count) {
      for (const Part& part : PartsOf(use.as, {begin.epoch, begin.offset + ahead}, count)) {
        (*epochs)[part.order].Add(part.begin, part.end, use.step);
      }
    };
    if (whole) return add(0, pass.samples);
    for (const int rank : use.ranks) {
      for (int64_t ahead = rank; ahead < pass.samples; ahead += use.as.world_size) add(ahead, 1);
    }
  });
}

// Where a sample is in an epoch's order; -1: nowhere.
int64_t PlaceOf(int64_t sample, const Order& order) {
  const auto& [source, epoch, samples, seed, shuffle] = order;
  if (sample >= samples) return -1;
  if (!shuffle) return sample;
  const Permutation permutation(samples, seed, static_cast<uint64_t>(epoch));
  int64_t place = 0;
  while (permutation.At(place) != sample) ++place;
  return place;
}

}  // namespace

Sampler::Options SamplingOf(const SampleRun& run, int rank) {
  Sampler::Options options;
  options.samples = run.samples;
  options.rank = rank;
  options.world_size = run.world_size;
  options.batch = run.batch;
  options.shuffle = run.shuffle;
  options.seed = run.seed;
  options.drop_last = run.drop_last;
  options.mixture = run.mixture;
  return options;
}

DataPosition PositionAfterStep(const SampleRun& run) {
  Sampler sampler(SamplingOf(run, run.rank), run.begin);
  for (int32_t pass = 0; pass < run.passes; ++pass) sampler.Skip();
  return sampler.position();
}

bool Extend(SampleRun* run, const SampleRun& next) {
  const bool same = run->generation == next.generation && run->parent == next.parent &&
                    run->since == next.since && run->rank == next.rank &&
                    run->world_size == next.world_size && run->batch == next.batch &&
                    run->passes == next.passes && run->with_first == next.with_first &&
                    run->with_size == next.with_size && run->samples == next.samples &&
                    run->seed == next.seed && run->shuffle == next.shuffle &&
                    run->drop_last == next.drop_last && IsSameMixture(*run, next);
  if (!same || next.first_step != run->first_step + run->steps || !(next.begin == run->end)) {
    return false;
  }
  run->steps += next.steps;
  run->end = next.end;
  return true;
}

std::vector<SampleRun> CountedRuns(const std::vector<SampleRun>& runs) {
  const std::map<int64_t, Beginning> line = LineOf(runs);
  std::vector<SampleRun> counted;
  for (SampleRun run : runs) {
    if (line.count(run.generation) == 0) continue;
    int64_t end = std::numeric_limits<int64_t>::max();
    for (auto later = line.upper_bound(run.generation); later != line.end(); ++later) {
      end = std::min(end, later->second.Of(run.rank));
    }
    run.steps = std::min(run.steps, end - run.first_step);
    if (run.steps > 0) counted.push_back(run);
  }
  std::stable_sort(counted.begin(), counted.end(), [](const SampleRun& a, const SampleRun& b) {
    return a.first_step < b.first_step;
  });
  return counted;
}

void ForEachStep(const std::vector<SampleRun>& counted,
                 const std::function<void(const StepUse& use)>& each) {
  std::list<Cursor> under_way;
  auto next = counted.begin();
  int64_t step = 0;
  while (next != counted.end() || !under_way.empty()) {
    if (under_way.empty()) step = next->first_step;
    for (; next != counted.end() && next->first_step == step; ++next) under_way.emplace_back(*next);
    CallFor(step, under_way, each);
    for (Cursor& cursor : under_way) Advance(&cursor);
    under_way.remove_if([](const Cursor& cursor) { return cursor.done == cursor.run->steps; });
    ++step;
  }
}

std::vector<int64_t> SamplesOf(const StepUse& use, int rank) {
  std::vector<int64_t> samples;
  std::vector<int64_t> batch;
  Sampler sampler(SamplingOf(use.as, rank), use.as.begin);
  for (int32_t pass = 0; pass < use.as.passes; ++pass) {
    sampler.Next(&batch);
    samples.insert(samples.end(), batch.begin(), batch.end());
  }
  return samples;
}

LedgerUse UseOf(const std::vector<SampleRun>& counted) {
  LedgerUse all;
  if (!counted.empty()) all.first_step = counted.front().first_step;
  std::map<Order, Spans> epochs;
  ForEachStep(counted, [&](const StepUse& use) {
    if (all.last_step >= all.first_step) {
      all.missing += std::max<int64_t>(use.step - all.last_step - 1, 0);
    }
    all.last_step = use.step;
    all.missing += static_cast<int64_t>(use.missing.size());
    if (use.is_known()) {
      AddTo(&epochs, use);
    } else {
      ++all.unknown;
    }
  });
  for (const auto& [order, spans] : epochs) {
    all.epochs.push_back(spans.Use(order));
  }
  return all;
}

std::vector<SampleUse> UsesOf(const std::vector<SampleRun>& counted, int64_t sample, int source) {
  std::map<Order, int64_t> places;
  std::vector<SampleUse> uses;
  ForEachStep(counted, [&](const StepUse& use) {
    if (!use.is_known()) return;
    ForEachPass(use, [&](const Sampler::Pass& pass) {
      for (const Part& part : PartsOf(use.as, pass.begin, pass.samples)) {
        if (std::get<0>(part.order) != source) continue;
        const auto found = places.find(part.order);
        const int64_t place = found != places.end()
                                  ? found->second
                                  : (places[part.order] = PlaceOf(sample, part.order));
        if (place < part.begin || place >= part.end) continue;
        const int64_t first = pass.begin.offset;
        const int64_t ahead = PositionOf(use.as, part.order, place, first) - first;
        const int rank = static_cast<int>(ahead % use.as.world_size);
        if (std::find(use.ranks.begin(), use.ranks.end(), rank) == use.ranks.end()) continue;
        uses.push_back({use.step, std::get<1>(part.order), rank});
      }
    });
  });
  return uses;
}

}  // namespace paceline
