#include "tests/sim/network.h"

#include <algorithm>

namespace paceline::sim {

void Network::SendUp(const SessionPtr& session, const Timeline::Action& arrive) {
  Send(session, true, arrive);
}

void Network::SendDown(const SessionPtr& session, const Timeline::Action& arrive) {
  Send(session, false, arrive);
}

void Network::Send(const SessionPtr& session, bool up, const Timeline::Action& arrive) {
  Session::Wire& wire = up ? session->up : session->down;
  wire.last = std::max(wire.last, time_.now() + Delay());
  const bool twice = random_.Chance(options_.repeated);
  time_.At(wire.last, [this, session, up, arrive] { Arrive(session, up, arrive); });
  if (twice) {
    time_.At(wire.last, [this, session, up, arrive] { Arrive(session, up, arrive); });
  }
}

void Network::Arrive(const SessionPtr& session, bool up, const Timeline::Action& arrive) {
  if (!(up ? session->open_at_controller : session->open_at_node)) return;
  Session::Wire& wire = up ? session->up : session->down;
  const bool cut = (up ? cut_up_ : cut_down_)[session->node] > 0;
  if (cut || !wire.waiting.empty()) {
    wire.waiting.push_back(arrive);
  } else {
    arrive();
  }
}

void Network::CutControl(int node, bool up, bool down) {
  if (up) ++cut_up_[node];
  if (down) ++cut_down_[node];
}

void Network::MendControl(int node, bool up, bool down) {
  if (up) --cut_up_[node];
  if (down) --cut_down_[node];
  sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(),
                                 [](const auto& session) { return session.expired(); }),
                  sessions_.end());
  for (const auto& weak : sessions_) {
    const SessionPtr session = weak.lock();
    if (session->node != node) continue;
    for (const bool direction : {true, false}) {
      if ((direction ? cut_up_ : cut_down_)[node] > 0) continue;
      auto waiting = std::move((direction ? session->up : session->down).waiting);
      (direction ? session->up : session->down).waiting.clear();
      for (const Timeline::Action& arrive : waiting) Arrive(session, direction, arrive);
    }
  }
}

}  // namespace paceline::sim
