// Why a node takes no new ranks: cordons and drains, who has set them, and who may take them away.
//
// A node has at most one cordon and one drain of each owner, and is free when it has none. A
// person's word goes before the automation's: the automation, which is the owner "automation",
// neither takes away what a person has set nor drains a node that a person holds.
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

// What becomes of the ranks on a node that is drained. Numbers of paceline.v1.DrainMode.
enum class DrainMode { kSwap = 1, kCheckpoint, kFinish, kNow };

struct Hold {
  std::optional<DrainMode> drain;  // Unset: a cordon.
  std::string owner;
  std::string reason;
  absl::Time since;  // Wall.
  // Wall: when a cordon ends, or a drain becomes one for now; infinite: never.
  absl::Time until = absl::InfiniteFuture();
  absl::Time due = absl::InfiniteFuture();  // The same, steady.
};

// "swap", "checkpoint", "finish", "now".
const char* DrainModeName(DrainMode mode);

// One line for people: "cordoned by ann: its fan is loud".
std::string DescribeHold(const Hold& hold);

// Adds the hold, or puts it in the place of its owner's of the same kind. `since` and `due` are
// set here. Returns false when the owner had set the same before: nothing changes then, and a
// deadline runs on.
bool SetHold(std::vector<Hold>& holds, Hold hold, Moment now);

// Takes the owner's cordon away. Returns false if there is none.
bool RemoveCordon(std::vector<Hold>& holds, absl::string_view owner);

// Takes all holds away; with the automation's word only its own. Returns false if there are none.
bool RemoveHolds(std::vector<Hold>& holds, absl::string_view owner);

// HELD_BY_PERSON if the automation must not drain a node with these holds.
std::optional<Refusal> RefuseAutomaticHold(const std::vector<Hold>& holds);

// The drain that counts: one for now before others, a person's before the automation's, and of
// several the one that was set last. Nullptr: none. Valid until `holds` changes.
const Hold* EffectiveDrain(const std::vector<Hold>& holds);

// What the passing of time does: a cordon ends, a drain becomes one for now. Returns what has
// happened, a line for each.
std::vector<std::string> ExpireHolds(std::vector<Hold>& holds, absl::Time steady_now);

// When ExpireHolds has something to do next; InfiniteFuture() if never. Steady.
absl::Time NextExpiry(const std::vector<Hold>& holds);

// Steady times do not survive a controller.
void RestoreExpiry(std::vector<Hold>& holds, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_HOLD_H_
