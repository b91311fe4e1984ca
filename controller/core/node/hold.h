// Why a node takes no new ranks: cordons and drains, who set them, and who may remove them.
//
// A node has at most one cordon and one drain of each owner, and is free when it has none. A person
// takes precedence over the automation, which is the owner "automation": it neither removes what a
// person has set nor drains a node that a person holds.
#ifndef CONTROLLER_CORE_NODE_HOLD_H_
#define CONTROLLER_CORE_NODE_HOLD_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/core/moment.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

inline constexpr absl::string_view kAutomationOwner = "automation";

// What happens to the ranks on a drained node. Values of paceline.v1.DrainMode.
enum class DrainMode { kSwap = 1, kCheckpoint, kFinish, kNow };

struct Hold {
  std::optional<DrainMode> drain;  // Unset: a cordon.
  std::string owner;
  std::string reason;
  absl::Time since;  // Wall.
  // Wall: when a cordon ends, or a drain changes to mode now; infinite: never.
  absl::Time until = absl::InfiniteFuture();
  absl::Time due = absl::InfiniteFuture();  // The same as steady time.
};

// "swap", "checkpoint", "finish", "now".
const char* DrainModeName(DrainMode mode);

// One line for people: "cordoned by ann: its fan is loud".
std::string DescribeHold(const Hold& hold);

// Adds the hold, or replaces its owner's hold of the same kind. Sets `since` and `due`. Returns
// false if the owner had set the same before; then nothing changes, and a deadline is not extended.
bool SetHold(std::vector<Hold>& holds, Hold hold, Moment now);

// Removes the owner's cordon. Returns false if there is none.
bool RemoveCordon(std::vector<Hold>& holds, absl::string_view owner);

// Removes all holds, or only the automation's if that is the owner. Returns false if there are
// none.
bool RemoveHolds(std::vector<Hold>& holds, absl::string_view owner);

// HELD_BY_PERSON if the automation must not drain a node with these holds.
std::optional<Refusal> RefuseAutomaticHold(const std::vector<Hold>& holds);

// The drain that counts: one in mode now first, then a person's before the automation's, then the
// one that was set last. Null: there is none. Valid until `holds` changes.
const Hold* EffectiveDrain(const std::vector<Hold>& holds);

// Does what is due: a cordon ends, or a drain changes to mode now. Returns a line for each.
std::vector<std::string> ExpireHolds(std::vector<Hold>& holds, absl::Time steady_now);

// When ExpireHolds has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextExpiry(const std::vector<Hold>& holds);

// Sets `due` anew, as steady times do not survive a controller.
void RestoreExpiry(std::vector<Hold>& holds, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_HOLD_H_
