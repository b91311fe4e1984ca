// The sessions between daemons and the controller, and the wires between nodes.
//
// Within a session messages keep their order and no single one is lost, as on the stream that the
// product uses. They are late, wait while the wire is cut, and are all lost when the session
// breaks. A daemon then makes a new session, in which messages of the old one never arrive.
//
// Thread-compatible.
#ifndef TESTS_SIM_NETWORK_H_
#define TESTS_SIM_NETWORK_H_

#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/messages.h"
#include "tests/sim/random.h"
#include "tests/sim/timeline.h"

namespace paceline::sim {

struct Session {
  int node = 0;
  std::string uid;
  int64_t controller = 0;  // Number of its start.
  bool open_at_node = true;
  bool open_at_controller = true;
  std::shared_ptr<const NodeOrders> last_plan;  // Sent by the controller.

  struct Wire {
    Micros last = 0;                       // Arrival of the newest message.
    std::deque<Timeline::Action> waiting;  // Until a cut ends.
  };
  Wire up, down;
};
using SessionPtr = std::shared_ptr<Session>;

class Network {
 public:
  struct Options {
    Micros mean_delay = 0;
    double repeated = 0;
  };

  Network(Timeline& time, Random random, int nodes, Options options)
      : time_(time), random_(random), options_(options), cut_up_(nodes), cut_down_(nodes) {}

  // `arrive` runs when the message arrives, if the receiver's end is still open.
  void SendUp(const SessionPtr& session, const Timeline::Action& arrive);
  void SendDown(const SessionPtr& session, const Timeline::Action& arrive);

  // Cuts are counted: what is cut twice must be mended twice.
  void CutControl(int node, bool up, bool down);
  void MendControl(int node, bool up, bool down);
  bool ControlIsCut(int node) const { return cut_up_[node] > 0 || cut_down_[node] > 0; }

  void CutData(int a, int b) { data_cuts_.insert(std::minmax(a, b)); }
  void MendData(int a, int b) { data_cuts_.erase(data_cuts_.find(std::minmax(a, b))); }
  bool DataIsCut(int a, int b) const {
    return !data_cuts_.empty() && data_cuts_.count(std::minmax(a, b)) > 0;
  }

  // Registers a session that must learn of the end of cuts.
  void Register(const SessionPtr& session) { sessions_.push_back(session); }

  Micros Delay() { return 200 + random_.Exponential(options_.mean_delay); }

 private:
  void Send(const SessionPtr& session, bool up, const Timeline::Action& arrive);
  void Arrive(const SessionPtr& session, bool up, const Timeline::Action& arrive);

  Timeline& time_;
  Random random_;
  const Options options_;
  std::vector<int> cut_up_, cut_down_;
  std::multiset<std::pair<int, int>> data_cuts_;
  std::vector<std::weak_ptr<Session>> sessions_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_NETWORK_H_
