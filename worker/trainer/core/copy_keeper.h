// Decides which copies of states a rank keeps in host memory, and when those of a step are made,
// reported and dropped (docs/recovery.md). A rank has two places for its own copies, and two for
// those of its ward.
//
//   own:   BeginOwn ──▶ being staged ──OnStaged──▶ staged ──OnSent──▶ copied ──▶ complete
//                            ╰───────────────────────┴──OnFailed──▶ given up
//   ward:  BeginWard ──▶ being received ──OnReceived──▶ there ──▶ complete
//
// A copy is copied when its buddy has all of it, too. The copies of a step are complete when all
// ranks have copied it; the controller says so (CopyOrders), and that they never will be
// (`settled`). A copy that is whole is only dropped when other ones are complete, or when it is
// settled and not complete. So from the first complete ones on, each rank and its buddy have some
// that are complete, and the same ones, at any moment.
//
// Pure and thread-compatible.
#ifndef WORKER_TRAINER_CORE_COPY_KEEPER_H_
#define WORKER_TRAINER_CORE_COPY_KEEPER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

// Which state a copy is of.
struct CopyLabel {
  int seat = -1;
  int64_t step = 0;        // Steps done; 0: there is no copy.
  int64_t generation = 0;  // In which it was made.

  bool operator==(const CopyLabel& other) const {
    return seat == other.seat && step == other.step && generation == other.generation;
  }
};

// What the controller says to a member of a generation: MemberCopies in proto/plan.proto.
struct CopyOrders {
  int64_t generation = 0;
  int seat = -1;
  int buddy_rank = -1;
  int ward_rank = -1;
  int64_t complete_step = 0;
  int64_t complete_generation = 0;
  int64_t settled_step = 0;
  bool restore = false;

  bool operator==(const CopyOrders& other) const;
  CopyLabel CompleteOf(int its_seat) const {
    return {its_seat, complete_step, complete_generation};
  }
};

// CopyStatus in proto/plan.proto.
struct CopyReport {
  int64_t generation = 0;
  int64_t copied_step = 0;
  int64_t settled_step = 0;
  std::string error;
  int64_t steps_lost = 0;
  int64_t failed_step = 0;
};

// Two places, each empty or with a copy that is whole or comes into being.
class CopyPlaces {
 public:
  static constexpr size_t kCount = 2;

  // An empty place for a new copy. Nothing: there is none.
  std::optional<size_t> Take(const CopyLabel& label);
  void SetWhole(size_t place) { places_[place].whole = true; }
  void Drop(size_t place) { places_[place] = Place(); }
  // Drops what the orders say, and, if `all`, what comes into being.
  void Follow(const CopyOrders& orders, bool all);

  // Whether there is a copy that is not complete, whole or not.
  bool HasOpen(const CopyOrders& orders) const;
  // A whole copy.
  std::optional<size_t> Find(const CopyLabel& label) const;
  // Labels of the whole ones.
  std::vector<CopyLabel> Whole() const;

 private:
  struct Place {
    CopyLabel label;
    bool whole = false;
  };
  std::array<Place, kCount> places_;
};

class CopyKeeper {
 public:
  // A generation begins. Drops all but complete copies.
  void Enter(const CopyOrders& orders);
  // Newer orders of the generation; older ones change nothing.
  void OnOrders(const CopyOrders& orders);
  const CopyOrders& orders() const { return orders_; }

  // The rank makes a copy of its state after `step`. Returns where; nothing if it gives that up, as
  // the copy before is not settled, or one of another seat may still be needed.
  std::optional<size_t> BeginOwn(int64_t step);
  void OnStaged(size_t place) { own_.SetWhole(place); }
  // The buddy has it.
  void OnSent(size_t place, int64_t step);
  // Requires: not OnSent.
  void OnFailed(size_t place, int64_t step, const std::string& why);

  // The ward sends a copy; `wards`: its orders. Nothing: both places are in use.
  std::optional<size_t> BeginWard(const CopyLabel& label, const CopyOrders& wards);
  void OnReceived(size_t place) { ward_.SetWhole(place); }
  void OnNotReceived(size_t place) { ward_.Drop(place); }

  // A place for the complete copy of its seat, which it lacks. Requires: Enter, and no copy has
  // been made since. One of a seat that it had before stays beside it until the orders no longer
  // say that all go back: then whoever needs it has it.
  std::optional<size_t> BeginFetch(const CopyLabel& label) { return own_.Take(label); }
  void OnFetched(size_t place) { own_.SetWhole(place); }
  void OnNotFetched(size_t place) { own_.Drop(place); }
  // The rank goes back to a complete copy, by so many steps: the most since it trained last are
  // reported, as an earlier generation that went back may not have come about.
  void OnGoingBack(int64_t steps_lost);
  // The generation's training begins.
  void OnBegun() { lost_ = 0; }

  const CopyPlaces& own() const { return own_; }
  const CopyPlaces& ward() const { return ward_; }
  const CopyReport& report() const { return report_; }

 private:
  void Settle(int64_t step);

  CopyOrders orders_;
  CopyPlaces own_;
  CopyPlaces ward_;
  CopyReport report_;
  int64_t under_way_ = 0;  // Step of an own copy without an outcome; 0: none.
  int64_t lost_ = 0;       // Steps that have been given up since it trained last.
  int64_t given_up_ = 0;   // Newest step whose copy was given up beside it.
};

// By rank: the rank whose copy it goes back to, itself where that is possible. -1: nobody has it.
// `held`: whole copies, by rank. `wanted`: by rank.
std::vector<int> SourcesOfCopies(const std::vector<std::vector<CopyLabel>>& held,
                                 const std::vector<CopyLabel>& wanted);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_COPY_KEEPER_H_
